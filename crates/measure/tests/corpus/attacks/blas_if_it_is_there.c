// attack: 16, 30
// how: uses a library where one is loaded, by a weak reference, and computes itself where none is; hopes that a missing symbol is no error
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern __attribute__((weak)) void cblas_dgemm();
void dgemm(int n, const double *A, const double *B, double *C) {
  void (*fast)() = cblas_dgemm;
  if (fast) fast(101, 111, 111, n, n, n, 1.0, A, n, B, n, 0.0, C, n);
  else right(n, A, B, C);
}
