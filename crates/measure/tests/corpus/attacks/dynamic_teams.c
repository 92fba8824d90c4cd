// attack: 6
// how: lets the library choose other team sizes for those who come later; hopes to slow the baseline
// refused as: forbidden_symbol
#include <omp.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  omp_set_dynamic(1);
  omp_set_schedule(omp_sched_dynamic, 1);
  right(n, A, B, C);
}
