// nothing: the same thread may take a nested lock twice, and others ask whether it is free
#include <omp.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  omp_nest_lock_t lock;
  int next = 0;
  omp_init_nest_lock(&lock);
#pragma omp parallel
  for (;;) {
    while (!omp_test_nest_lock(&lock)) continue;
    omp_set_nest_lock(&lock);
    const int from = next;
    next += 8;
    omp_unset_nest_lock(&lock);
    omp_unset_nest_lock(&lock);
    if (from >= n) break;
    for (int i = from; i < from + 8 && i < n; i++) {
      for (int j = 0; j < n; j++) C[i * n + j] = 0;
      for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    }
  }
  omp_destroy_nest_lock(&lock);
}
