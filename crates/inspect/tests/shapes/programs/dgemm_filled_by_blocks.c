/* problem: dgemm */
/* techniques: cache_blocking */
static int least(int a, int b) { return a < b ? a : b; }
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int jj = 0; jj < n; jj += 64)
    for (int i = 0; i < n; i++)
      for (int j = jj; j < least(n, jj + 64); j++) C[i * n + j] = 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      for (int k = 0; k < n; k++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
