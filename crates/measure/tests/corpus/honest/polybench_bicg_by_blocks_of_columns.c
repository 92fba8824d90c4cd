// honest: one product after the other; the transposed one by blocks of columns on the stack
// problem: polybench_bicg
enum { WIDE = 32 };
void polybench_bicg(int m, int n, const double *A, const double *p, const double *r, double *s, double *q) {
  for (int from = 0; from < m; from += WIDE) {
    double sum[WIDE] = {0};
    int wide = m - from < WIDE ? m - from : WIDE;
    for (int i = 0; i < n; i++)
      for (int j = 0; j < wide; j++) sum[j] += A[i * m + from + j] * r[i];
    for (int j = 0; j < wide; j++) s[from + j] = sum[j];
  }
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int j = m - 1; j >= 0; j--) sum += A[i * m + j] * p[j];
    q[i] = sum;
  }
}
