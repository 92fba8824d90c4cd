// unroll
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      for (int k = 0; k < n; k += 4) {
        s0 += A[i * n + k] * B[k * n + j];
        s1 += A[i * n + k + 1] * B[(k + 1) * n + j];
        s2 += A[i * n + k + 2] * B[(k + 2) * n + j];
        s3 += A[i * n + k + 3] * B[(k + 3) * n + j];
      }
      C[i * n + j] = s0 + s1 + s2 + s3;
    }
}
