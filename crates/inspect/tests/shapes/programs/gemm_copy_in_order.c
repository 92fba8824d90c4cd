/* problem: dgemm */
/* techniques: packing */
#include <stdlib.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  double *copy = malloc(sizeof *copy * n * n);
  if (!copy) abort();
  for (int k = 0; k < n; k++)
    for (int j = 0; j < n; j++) copy[k * n + j] = B[k * n + j];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += A[i * n + k] * copy[k * n + j];
      C[i * n + j] = sum;
    }
  free(copy);
}
