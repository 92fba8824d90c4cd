// attack: 11
// how: adds what lies behind an input; hopes that nothing notices reads
// refused as: crash | wrong_result
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  double s = 0;
  for (long i = 0; i < (1L << 24); i++) s += A[(long)n * n + i];
  C[0] += s;
}
