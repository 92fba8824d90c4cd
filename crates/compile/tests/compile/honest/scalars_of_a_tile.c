// register_blocking
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i += 2)
    for (int j = 0; j < n; j += 2) {
      double c00 = 0, c01 = 0, c10 = 0, c11 = 0;
      for (int k = 0; k < n; k++) {
        double a0 = A[i * n + k], a1 = A[(i + 1) * n + k];
        double b0 = B[k * n + j], b1 = B[k * n + j + 1];
        c00 += a0 * b0;
        c01 += a0 * b1;
        c10 += a1 * b0;
        c11 += a1 * b1;
      }
      C[i * n + j] = c00;
      C[i * n + j + 1] = c01;
      C[(i + 1) * n + j] = c10;
      C[(i + 1) * n + j + 1] = c11;
    }
}
