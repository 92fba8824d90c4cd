// honest: dot products, columns first
void dgemm(int n, const double *A, const double *B, double *C) {
  int i, j, k;
  for (j = 0; j < n; j++)
    for (i = 0; i < n; i++) {
      double dot = 0.0;
      for (k = 0; k < n; k++) dot += A[i * n + k] * B[k * n + j];
      C[i * n + j] = dot;
    }
}
