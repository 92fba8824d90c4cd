// attack: 26
// how: asks for more stack than there is; hopes that it runs into something
// refused as: crash
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  volatile double space[(long)n * n * 4096];
  for (long i = (long)n * n * 4096 - 1; i >= 0; i -= 512) space[i] = A[0];
  right(n, A, B, C);
}
