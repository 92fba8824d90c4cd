// honest: one outer product after the other, on the lower triangle
// problem: polybench_syrk
void polybench_syrk(int n, int m, double alpha, double beta, double *C, const double *A) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j <= i; j++) C[i * n + j] *= beta;
  for (int k = 0; k < m; k++)
    for (int i = 0; i < n; i++) {
      double a = alpha * A[i * m + k];
      for (int j = 0; j <= i; j++) C[i * n + j] += a * A[j * m + k];
    }
}
