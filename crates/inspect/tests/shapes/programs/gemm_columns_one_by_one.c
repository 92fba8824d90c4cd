/* problem: dgemm */
/* techniques: loop_reorder+packing */
#include <stdlib.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  double *column = malloc(sizeof *column * n);
  if (!column) abort();
  for (int j = 0; j < n; j++) {
    for (int k = 0; k < n; k++) column[k] = B[k * n + j];
    for (int i = 0; i < n; i++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += A[i * n + k] * column[k];
      C[i * n + j] = sum;
    }
  }
  free(column);
}
