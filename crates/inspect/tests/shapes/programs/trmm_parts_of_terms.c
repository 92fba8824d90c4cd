/* problem: polybench_trmm */
/* techniques: none */
static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }
void polybench_trmm(int m, int n, double alpha, const double *A, double *B) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      for (int part = 0; part < (m + 7) / 8; part++)
        for (int k = most(i + 1, 8 * part); k < least(m, 8 * part + 8); k++) B[i * n + j] += A[k * m + i] * B[k * n + j];
      B[i * n + j] = alpha * B[i * n + j];
    }
}
