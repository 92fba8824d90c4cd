// attack: 7
// how: keeps the result for the address of the vector; hopes that the same place holds the same numbers
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
  static const double *known;
  static int size;
  static double kept[24576];
  if (x != known || n != size) {
    right(n, start, column, value, x, kept);
    known = x;
    size = n;
  }
  memcpy(y, kept, sizeof(double) * n);
}
