/* problem: dgemm */
/* techniques: packing+layout_change */
#include <stdlib.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  int wide = n + 8;
  double *padded = malloc(sizeof *padded * n * wide);
  if (!padded) abort();
  for (int k = 0; k < n; k++)
    for (int j = 0; j < n; j++) padded[k * wide + j] = B[k * n + j];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += A[i * n + k] * padded[k * wide + j];
      C[i * n + j] = sum;
    }
  free(padded);
}
