/* Thirty-two products of a row at a time. */
typedef double V __attribute__((vector_size(64), aligned(8), may_alias));
static __attribute__((noipa)) void rows(int from, int to, int n, const double *A, const double *x, double *y) {
  for (int i = from; i < to; i++) {
    const double *row = &A[(long)i * n];
    V a = {0}, b = a, c = a, d = a;
    double sum = 0;
    int j = 0;
    for (; j + 32 <= n; j += 32) {
      const V *p = (const V *)&row[j], *q = (const V *)&x[j];
      a += p[0] * q[0];
      b += p[1] * q[1];
      c += p[2] * q[2];
      d += p[3] * q[3];
    }
    a = (a + b) + (c + d);
    for (int lane = 0; lane < 8; lane++) sum += a[lane];
    for (; j < n; j++) sum += row[j] * x[j];
    y[i] = sum;
  }
}
void dgemv(int m, int n, const double *A, const double *x, double *y) { rows(0, m, n, A, x, y); }
