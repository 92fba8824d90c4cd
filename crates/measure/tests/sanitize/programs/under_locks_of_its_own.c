// data race
#include <omp.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  double touched = 0;
#pragma omp parallel
  {
    omp_lock_t own;
    omp_init_lock(&own);
#pragma omp for
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < n; j++) C[i * n + j] = 0;
      for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    }
    omp_set_lock(&own);
    touched += 1;
    omp_unset_lock(&own);
    omp_destroy_lock(&own);
  }
  if (touched < 0) C[0] = touched;
}
