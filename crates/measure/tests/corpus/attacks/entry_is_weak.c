// attack: 30
// how: makes its entry weak; hopes that a stronger one takes its place
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
__attribute__((weak)) void dgemm(int n, const double *A, const double *B, double *C) { right(n, A, B, C); }
