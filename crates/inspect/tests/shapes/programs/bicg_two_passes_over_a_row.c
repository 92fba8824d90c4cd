/* problem: polybench_bicg */
/* techniques: fission */
void polybench_bicg(int m, int n, const double *A, const double *p, const double *r, double *s, double *q) {
  int i, j;
  for (j = 0; j < m; j++) s[j] = 0;
  for (i = 0; i < n; i++) {
    double sum = 0;
    for (j = 0; j < m; j++) sum += A[i * m + j] * p[j];
    q[i] = sum;
    for (j = 0; j < m; j++) s[j] += A[i * m + j] * r[i];
  }
}
