// honest: loops over rows and terms are calls at the end of a function
static void term(int n, int k, const double *a, const double *b, double *c) {
  if (k == n) return;
  for (int j = 0; j < n; j++) c[j] = (k ? c[j] : 0) + a[k] * b[j];
  term(n, k + 1, a, b + n, c);
}
static void row(int n, int left, const double *a, const double *B, double *c) {
  if (!left) return;
  term(n, 0, a, B, c);
  row(n, left - 1, a + n, B, c + n);
}
void dgemm(int n, const double *A, const double *B, double *C) { row(n, n, A, B, C); }
