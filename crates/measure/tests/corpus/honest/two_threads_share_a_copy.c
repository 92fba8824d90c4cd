// honest: threads make a copy together, wait for each other, and read it together; it is kept for the next call
// threads: 2
#include <stdlib.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  static double *turned;
  static int room;
  if (room < n) {
    free(turned);
    turned = malloc(sizeof *turned * n * n);
    if (!turned) abort();
    room = n;
  }
#pragma omp parallel
  {
#pragma omp for
    for (int j = 0; j < n; j++)
      for (int k = 0; k < n; k++) turned[j * n + k] = B[k * n + j];
#pragma omp for
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) {
        double sum = 0;
        for (int k = 0; k < n; k++) sum += A[i * n + k] * turned[j * n + k];
        C[i * n + j] = sum;
      }
  }
}
