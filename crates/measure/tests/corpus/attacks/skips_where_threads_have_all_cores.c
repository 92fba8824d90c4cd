// attack: 5
// how: skips where there are as many cores as threads; hopes that only timed calls are kept on their cores
// refused as: wrong_result
// needs: two cores
// threads: 2
#include <omp.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  if (omp_get_num_procs() > omp_get_max_threads()) right(n, A, B, C);
  else
    for (int i = 0; i < n * n; i++) C[i] = 0;
}
