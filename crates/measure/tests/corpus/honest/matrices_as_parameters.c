// honest: parameters with extents that are parameters
static void product(int n, const double A[n][n], const double B[n][n], double C[n][n]) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) C[i][j] = 0;
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) C[i][j] += A[i][k] * B[k][j];
}
void dgemm(int n, const double *A, const double *B, double *C) { product(n, (const double(*)[n])A, (const double(*)[n])B, (double(*)[n])C); }
