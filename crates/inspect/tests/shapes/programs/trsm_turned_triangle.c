/* problem: dtrsm */
/* techniques: packing+layout_change */
#include <stdlib.h>
void dtrsm(int n, int m, const double *L, const double *B, double *X) {
  double *turned = malloc(sizeof *turned * n * n);
  if (!turned) abort();
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) turned[k * n + i] = L[i * n + k];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) {
      double sum = B[i * m + j];
      for (int k = 0; k < i; k++) sum -= turned[k * n + i] * X[k * m + j];
      X[i * m + j] = sum / turned[i * n + i];
    }
  free(turned);
}
