// honest: a transposed copy on the heap
#include <stdlib.h>
#include <string.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  double *T = malloc(sizeof(double) * n * n);
  for (int k = 0; k < n; k++)
    for (int j = 0; j < n; j++) T[j * n + k] = B[k * n + j];
  memset(C, 0, sizeof(double) * n * n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double s = 0;
      for (int k = 0; k < n; k++) s += A[i * n + k] * T[j * n + k];
      C[i * n + j] = s;
    }
  free(T);
}
