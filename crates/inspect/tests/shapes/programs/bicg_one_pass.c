/* problem: polybench_bicg */
/* techniques: none */
void polybench_bicg(int m, int n, const double *A, const double *p, const double *r, double *s, double *q) {
  for (int j = 0; j < m; j++) s[j] = 0;
  for (int i = 0; i < n; i++) q[i] = 0;
  for (int i = 0; i < n; i++) {
    const double *row = &A[i * m];
    const double by = r[i];
    double sum = 0;
    for (int j = 0; j < m; j++) {
      s[j] += by * row[j];
      sum += row[j] * p[j];
    }
    q[i] = sum;
  }
}
