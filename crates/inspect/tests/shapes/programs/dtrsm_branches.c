/* problem: dtrsm */
/* techniques: cache_blocking */
static int least(int a, int b) { return a < b ? a : b; }
void dtrsm(int n, int m, const double *L, const double *B, double *X) {
  int i, j, k, ii, jj;
  for (i = 0; i < n * m; i++) X[i] = B[i];
  for (ii = 0; ii < n; ii += 256)
    for (jj = 0; jj < m; jj += 128)
      for (i = ii; i < least(n, ii + 256); i++) {
        if (i > 0) {
          for (j = jj; j < least(m, jj + 128); j++) {
            double part = 0;
            for (k = 0; k < i; k++) part += L[i * n + k] * X[k * m + j];
            X[i * m + j] -= part;
          }
        }
        for (j = jj; j < least(m, jj + 128); j++) X[i * m + j] /= L[i * n + i];
      }
}
