// honest: each row of the result by itself; the part behind the diagonal goes down a column
// problem: polybench_symm
void polybench_symm(int m, int n, double alpha, double beta, double *C, const double *A, const double *B) {
  for (int i = 0; i < m; i++) {
    double *c = &C[i * n];
    for (int j = 0; j < n; j++) c[j] *= beta;
    for (int k = m - 1; k >= 0; k--) {
      double a = alpha * A[k > i ? k * m + i : i * m + k];
      for (int j = 0; j < n; j++) c[j] += a * B[k * n + j];
    }
  }
}
