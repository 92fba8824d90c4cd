// honest: rows are shared among threads, in pieces of a size that is no divisor
// problem: spmv
void spmv(int n, int m, const int *start, const int *column, const double *value, const double *x, double *y) {
  (void)m;
#pragma omp parallel for schedule(static, 1000)
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int k = start[i]; k < start[i + 1]; k++) sum += value[k] * x[column[k]];
    y[i] = sum;
  }
}
