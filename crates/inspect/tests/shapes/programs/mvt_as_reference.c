/* problem: polybench_mvt */
/* techniques: none */
void polybench_mvt(int n, double *x1, double *x2, const double *y1, const double *y2, const double *A) {
  for (int i = 0; i < n; i++) {
    double sum = x1[i];
    for (int j = 0; j < n; j++) sum += A[i * n + j] * y1[j];
    x1[i] = sum;
  }
  for (int i = 0; i < n; i++) {
    double sum = x2[i];
    for (int j = 0; j < n; j++) sum += A[j * n + i] * y2[j];
    x2[i] = sum;
  }
}
