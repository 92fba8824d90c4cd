// honest: intrinsics that every machine of this kind has
// needs: x86_64
#include <immintrin.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i += 2)
    for (int j = 0; j < n; j += 4) {
      __m128d c00 = _mm_setzero_pd(), c01 = c00, c10 = c00, c11 = c00;
      for (int k = 0; k < n; k++) {
        __m128d b0 = _mm_load_pd(&B[k * n + j]), b1 = _mm_load_pd(&B[k * n + j + 2]);
        __m128d a0 = _mm_set1_pd(A[i * n + k]), a1 = _mm_load1_pd(&A[(i + 1) * n + k]);
        c00 = _mm_add_pd(c00, _mm_mul_pd(a0, b0)), c01 = _mm_add_pd(c01, _mm_mul_pd(a0, b1));
        c10 = _mm_add_pd(c10, _mm_mul_pd(a1, b0)), c11 = _mm_add_pd(c11, _mm_mul_pd(a1, b1));
      }
      _mm_store_pd(&C[i * n + j], c00), _mm_storeu_pd(&C[i * n + j + 2], c01);
      _mm_store_pd(&C[(i + 1) * n + j], c10), _mm_stream_pd(&C[(i + 1) * n + j + 2], c11);
    }
  _mm_sfence();
}
