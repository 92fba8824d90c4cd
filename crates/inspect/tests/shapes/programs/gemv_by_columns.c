/* problem: dgemv */
/* techniques: loop_reorder */
#include <string.h>
void dgemv(int m, int n, const double *A, const double *x, double *y) {
  memset(y, 0, sizeof *y * m);
  for (int j = 0; j < n; j++) {
    const double *a = A + j;
    for (int i = 0; i < m; i++, a += n) y[i] += *a * x[j];
  }
}
