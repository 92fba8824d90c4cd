// honest: threads only where the size is worth it, with everything spelled out
#include <omp.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  int threads = omp_get_max_threads() < omp_get_num_procs() ? omp_get_max_threads() : omp_get_num_procs();
#pragma omp parallel for if (n >= 128) num_threads(threads) schedule(static) default(none) shared(A, B, C) firstprivate(n) proc_bind(close)
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
