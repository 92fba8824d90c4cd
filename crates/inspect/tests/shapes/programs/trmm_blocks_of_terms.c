/* problem: polybench_trmm */
/* techniques: cache_blocking */
static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }
void polybench_trmm(int m, int n, double alpha, const double *A, double *B) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      for (int block = 0; block < (m + 63) / 64; block++)
        for (int k = most(i + 1, 64 * block); k < least(m, 64 * block + 64); k++) B[i * n + j] += A[k * m + i] * B[k * n + j];
      B[i * n + j] = alpha * B[i * n + j];
    }
}
