// honest: two sums for each row
// problem: spmv
void spmv(int n, int m, const int *start, const int *column, const double *value, const double *x, double *y) {
  (void)m;
  for (int i = 0; i < n; i++) {
    double even = 0, odd = 0;
    int k = start[i], end = start[i + 1];
    for (; k + 2 <= end; k += 2) {
      even += value[k] * x[column[k]];
      odd += value[k + 1] * x[column[k + 1]];
    }
    if (k < end) even += value[k] * x[column[k]];
    y[i] = even + odd;
  }
}
