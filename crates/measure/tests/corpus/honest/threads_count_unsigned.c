// honest: a dynamic schedule over an unsigned size
#include <stddef.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  const size_t m = n;
#pragma omp parallel for schedule(dynamic, 8)
  for (size_t i = 0; i < m; i++) {
    for (size_t j = 0; j < m; j++) C[i * m + j] = 0;
    for (size_t k = 0; k < m; k++)
      for (size_t j = 0; j < m; j++) C[i * m + j] += A[i * m + k] * B[k * m + j];
  }
}
