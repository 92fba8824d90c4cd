// honest: threads take the next rows under a lock of OpenMP
// threads: 2
#include <omp.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  omp_lock_t lock;
  int next = 0;
  omp_init_lock(&lock);
#pragma omp parallel
  for (;;) {
    omp_set_lock(&lock);
    const int from = next;
    next += 8;
    omp_unset_lock(&lock);
    if (from >= n) break;
    for (int i = from; i < from + 8 && i < n; i++) {
      for (int j = 0; j < n; j++) C[i * n + j] = 0;
      for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    }
  }
  omp_destroy_lock(&lock);
}
