// loop_reorder+openmp
#include <omp.h>
void dgemm(int n, const double *A, const double *B, double *C) {
#pragma omp parallel
  {
    int me = omp_get_thread_num(), all = omp_get_num_threads();
    for (int i = me; i < n; i += all) {
      for (int j = 0; j < n; j++) C[i * n + j] = 0;
      for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    }
  }
}
