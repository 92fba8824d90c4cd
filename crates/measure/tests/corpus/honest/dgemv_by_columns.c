// honest: the columns of the matrix, each times a number, one after the other in the result
// problem: dgemv
void dgemv(int m, int n, const double *A, const double *x, double *y) {
  for (int i = 0; i < m; i++) y[i] = 0;
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) y[i] += A[i * n + j] * x[j];
}
