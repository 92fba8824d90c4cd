// honest: adds each row of B to all rows above it while it is still the old one, and scales at the end
// problem: polybench_trmm
void polybench_trmm(int m, int n, double alpha, const double *A, double *B) {
  for (int k = 1; k < m; k++)
    for (int i = 0; i < k; i++) {
      double a = A[k * m + i];
      for (int j = 0; j < n; j++) B[i * n + j] += a * B[k * n + j];
    }
  for (int i = 0; i < m * n; i++) B[i] *= alpha;
}
