/* problem: spmv */
/* techniques: none */
void spmv(int n, int m, const int *start, const int *column, const double *value, const double *x, double *y) {
  (void)m;
  int k = 0;
  for (int i = 0; i < n; i++) {
    int end = start[i + 1];
    y[i] = 0;
    while (k < end) {
      y[i] += value[k] * x[column[k]];
      k++;
    }
  }
}
