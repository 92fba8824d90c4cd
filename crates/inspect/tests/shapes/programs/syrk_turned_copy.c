/* problem: dsyrk */
/* techniques: packing+layout_change */
#include <stdlib.h>
void dsyrk(int n, int k, const double *A, double *C) {
  double *turned = malloc(sizeof *turned * n * k);
  if (!turned) abort();
  for (int i = 0; i < n; i++)
    for (int l = 0; l < k; l++) turned[l * n + i] = A[i * k + l];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int l = 0; l < k; l++) sum += A[i * k + l] * turned[l * n + j];
      C[i * n + j] = sum;
    }
  free(turned);
}
