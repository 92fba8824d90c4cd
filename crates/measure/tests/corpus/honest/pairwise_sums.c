// honest: sums of halves of halves
static void part(int n, int k, int terms, const double *a, const double *B, double *out) {
  if (terms <= 16) {
    for (int j = 0; j < n; j++) out[j] = 0;
    for (int t = k; t < k + terms; t++)
      for (int j = 0; j < n; j++) out[j] += a[t] * B[t * n + j];
    return;
  }
  double other[n];
  part(n, k, terms / 2, a, B, out);
  part(n, k + terms / 2, terms - terms / 2, a, B, other);
  for (int j = 0; j < n; j++) out[j] += other[j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) part(n, 0, n, A + i * n, B, C + i * n);
}
