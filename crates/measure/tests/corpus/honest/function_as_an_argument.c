// honest: a function that calls the function it is given
static void over_rows(int n, void (*each)(int, int, const double *, const double *, double *), const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) each(n, i, A, B, C);
}
static void one_row(int n, int i, const double *A, const double *B, double *C) {
  double *c = C + i * n;
  for (int j = 0; j < n; j++) c[j] = 0;
  for (int k = 0; k < n; k++)
    for (int j = 0; j < n; j++) c[j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) { over_rows(n, one_row, A, B, C); }
