// problem: polybench_mvt
// techniques: fusion
extern "C" void polybench_mvt(int n, double *x1, double *x2, const double *y1, const double *y2, const double *A) {
  for (int i = 0; i < n; ++i) {
    double along = x1[i], down = x2[i];
    for (int j = 0; j < n; ++j) along += A[i * n + j] * y1[j];
    for (int j = 0; j < n; ++j) down += A[j * n + i] * y2[j];
    x1[i] = along;
    x2[i] = down;
  }
}
