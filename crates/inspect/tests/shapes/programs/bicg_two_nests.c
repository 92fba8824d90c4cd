/* problem: polybench_bicg */
/* techniques: fission */
void polybench_bicg(int m, int n, const double *A, const double *p, const double *r, double *s, double *q) {
  for (int j = 0; j < m; j++) s[j] = 0;
  for (int i = 0; i < n; i++) {
    const double *row = A + i * m;
    for (int j = 0; j < m; j++) s[j] += r[i] * row[j];
  }
  for (int i = 0; i < n; i++) {
    const double *row = A + i * m;
    double sum = 0;
    for (int j = 0; j < m; j++) sum += row[j] * p[j];
    q[i] = sum;
  }
}
