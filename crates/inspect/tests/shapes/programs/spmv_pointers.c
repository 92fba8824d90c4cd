/* problem: spmv */
/* techniques: unroll+prefetch+partial_sums */
void spmv(int n, int m, const int *start, const int *column, const double *value, const double *x, double *y) {
  (void)m;
  for (int i = 0; i < n; ++i) {
    const double *v = value + start[i], *end = value + start[i + 1];
    const int *c = column + start[i];
    double s0 = 0, s1 = 0;
    for (; v + 1 < end; v += 2, c += 2) {
      __builtin_prefetch(v + 16);
      s0 += v[0] * x[c[0]];
      s1 += v[1] * x[c[1]];
    }
    if (v < end) s0 += *v * x[*c];
    y[i] = s0 + s1;
  }
}
