/* problem: polybench_bicg */
/* techniques: openmp+fission */
void polybench_bicg(int m, int n, const double *A, const double *p, const double *r, double *s, double *q) {
  for (int j = 0; j < m; j++) s[j] = 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) s[j] += r[i] * A[i * m + j];
#pragma omp parallel for
  for (int i = 0; i < n; i++) {
    q[i] = 0;
    for (int j = 0; j < m; j++) q[i] += A[i * m + j] * p[j];
  }
}
