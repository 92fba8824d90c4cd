// honest: reads each element of the matrix once for both products
// problem: polybench_mvt
void polybench_mvt(int n, double *x1, double *x2, const double *y1, const double *y2, const double *A) {
  const double *a = A;
  for (int i = 0; i < n; i++) {
    double sum = 0, factor = y2[i];
    for (int j = 0; j < n; j++, a++) {
      sum += *a * y1[j];
      x2[j] += *a * factor;
    }
    x1[i] += sum;
  }
}
