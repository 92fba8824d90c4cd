/* problem: dgemm */
/* techniques: packing+layout_change */
#include <stdlib.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  double *turned = malloc(sizeof *turned * n * n);
  if (!turned) abort();
  for (int k = 0; k < n; k++)
    for (int j = 0; j < n; j++) turned[j * n + k] = B[k * n + j];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += A[i * n + k] * turned[j * n + k];
      C[i * n + j] = sum;
    }
  free(turned);
}
