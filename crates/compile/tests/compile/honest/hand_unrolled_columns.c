// loop_reorder+unroll
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) {
      double a = A[i * n + k];
      for (int j = 0; j < n; j += 4) {
        C[i * n + j] += a * B[k * n + j];
        C[i * n + j + 1] += a * B[k * n + j + 1];
        C[i * n + j + 2] += a * B[k * n + j + 2];
        C[i * n + j + 3] += a * B[k * n + j + 3];
      }
    }
}
