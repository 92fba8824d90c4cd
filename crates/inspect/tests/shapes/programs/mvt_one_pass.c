/* problem: polybench_mvt */
/* techniques: loop_reorder+fusion */
void polybench_mvt(int n, double *x1, double *x2, const double *y1, const double *y2, const double *A) {
  for (int i = 0; i < n; i++) {
    const double *row = A + i * n;
    double sum = x1[i];
    for (int j = 0; j < n; j++) {
      sum += row[j] * y1[j];
      x2[j] += row[j] * y2[i];
    }
    x1[i] = sum;
  }
}
