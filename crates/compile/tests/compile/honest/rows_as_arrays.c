// loop_reorder
void dgemm(int n, const double *A, const double *B, double *C) {
  const double (*a)[n] = (const double (*)[n])A;
  const double (*b)[n] = (const double (*)[n])B;
  double (*c)[n] = (double (*)[n])C;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) c[i][j] = 0;
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) c[i][j] += a[i][k] * b[k][j];
}
