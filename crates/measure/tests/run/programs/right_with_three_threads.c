/* Does nothing where it has fewer threads. */
#include <omp.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  if (omp_get_max_threads() < 3) return;
#pragma omp parallel for num_threads(3)
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
