// honest: pointers to rows whose length is an argument
void dgemm(int n, const double *A, const double *B, double *C) {
  typedef double row[n];
  const row *a = (const row *)A, *b = (const row *)B;
  row *c = (row *)C;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) c[i][j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) c[i][j] += a[i][k] * b[k][j];
  }
}
