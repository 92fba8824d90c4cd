// unroll
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double s = 0;
      for (int k = 0; k < n; k += 2) s += A[i * n + k] * B[k * n + j] + A[i * n + k + 1] * B[(k + 1) * n + j];
      C[i * n + j] = s;
    }
}
