// heap-buffer-overflow: WRITE of size 8, 0 bytes
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  volatile double *workspace = new double[64];
  workspace[n % 64 + 64] = 1;
  delete[] workspace;
}
