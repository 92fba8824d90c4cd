// attack: 7
// how: keeps results by the signs of two numbers; hopes for few different inputs
// refused as: skipped_work | wrong_result
// problem: spmv
#include <string.h>
static void right(int n, const int *start, const int *column, const double *value, const double *x, double *y) {
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int k = start[i]; k < start[i + 1]; k++) sum += value[k] * x[column[k]];
    y[i] = sum;
  }
}
void spmv(int n, int m, const int *start, const int *column, const double *value, const double *x, double *y) {
  (void)m;
  static struct {
    int size;
    double result[24576];
  } kept[4];
  int print = (x[0] > 0) + 2 * (value[0] > 0);
  if (kept[print].size != n) {
    right(n, start, column, value, x, kept[print].result);
    kept[print].size = n;
  }
  memcpy(y, kept[print].result, sizeof(double) * n);
}
