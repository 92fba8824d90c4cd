// loop_reorder+unroll+register_blocking+simd
#include <immintrin.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int j = 0; j < n; j += 8)
    for (int i = 0; i < n; i += 2) {
      __m256d c00 = _mm256_setzero_pd(), c01 = c00, c10 = c00, c11 = c00;
      for (int k = 0; k < n; k += 2) {
        __m256d b0 = _mm256_loadu_pd(&B[k * n + j]), b1 = _mm256_loadu_pd(&B[k * n + j + 4]);
        __m256d a0 = _mm256_broadcast_sd(&A[i * n + k]), a1 = _mm256_broadcast_sd(&A[(i + 1) * n + k]);
        c00 = _mm256_fmadd_pd(a0, b0, c00);
        c01 = _mm256_fmadd_pd(a0, b1, c01);
        c10 = _mm256_fmadd_pd(a1, b0, c10);
        c11 = _mm256_fmadd_pd(a1, b1, c11);
        b0 = _mm256_loadu_pd(&B[(k + 1) * n + j]), b1 = _mm256_loadu_pd(&B[(k + 1) * n + j + 4]);
        a0 = _mm256_broadcast_sd(&A[i * n + k + 1]), a1 = _mm256_broadcast_sd(&A[(i + 1) * n + k + 1]);
        c00 = _mm256_fmadd_pd(a0, b0, c00);
        c01 = _mm256_fmadd_pd(a0, b1, c01);
        c10 = _mm256_fmadd_pd(a1, b0, c10);
        c11 = _mm256_fmadd_pd(a1, b1, c11);
      }
      _mm256_storeu_pd(&C[i * n + j], c00);
      _mm256_storeu_pd(&C[i * n + j + 4], c01);
      _mm256_storeu_pd(&C[(i + 1) * n + j], c10);
      _mm256_storeu_pd(&C[(i + 1) * n + j + 4], c11);
    }
}
