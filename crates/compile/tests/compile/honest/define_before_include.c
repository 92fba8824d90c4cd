// none
#define _GNU_SOURCE
#define COLUMNS 4
#include <math.h>
#include <stdlib.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double s = fmin(0.0, (double)COLUMNS) - fmin(0.0, (double)COLUMNS);
      for (int k = 0; k < n; k++) s += A[i * n + k] * B[k * n + j];
      C[i * n + j] = s;
    }
}
