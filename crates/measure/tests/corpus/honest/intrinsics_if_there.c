// honest: intrinsics where the flags give them, and plain code else
// needs: x86_64
#include <immintrin.h>
void dgemm(int n, const double *A, const double *B, double *C) {
#if defined(__AVX512F__)
  for (int i = 0; i < n; i += 4)
    for (int j = 0; j < n; j += 16) {
      __m512d c[4][2];
      for (int r = 0; r < 4; r++) c[r][0] = c[r][1] = _mm512_setzero_pd();
      for (int k = 0; k < n; k++) {
        __m512d b0 = _mm512_load_pd(&B[k * n + j]), b1 = _mm512_load_pd(&B[k * n + j + 8]);
        for (int r = 0; r < 4; r++) {
          __m512d a = _mm512_set1_pd(A[(i + r) * n + k]);
          c[r][0] = _mm512_fmadd_pd(a, b0, c[r][0]);
          c[r][1] = _mm512_fmadd_pd(a, b1, c[r][1]);
        }
      }
      for (int r = 0; r < 4; r++) _mm512_store_pd(&C[(i + r) * n + j], c[r][0]), _mm512_mask_storeu_pd(&C[(i + r) * n + j + 8], 0xff, c[r][1]);
    }
#elif defined(__AVX2__) && defined(__FMA__)
  for (int i = 0; i < n; i += 4)
    for (int j = 0; j < n; j += 4) {
      __m256d c[4];
      for (int r = 0; r < 4; r++) c[r] = _mm256_setzero_pd();
      for (int k = 0; k < n; k++) {
        __m256d b = _mm256_load_pd(&B[k * n + j]);
        for (int r = 0; r < 4; r++) c[r] = _mm256_fmadd_pd(_mm256_broadcast_sd(&A[(i + r) * n + k]), b, c[r]);
      }
      for (int r = 0; r < 4; r++) _mm256_store_pd(&C[(i + r) * n + j], c[r]);
    }
  _mm256_zeroupper();
#else
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double s = 0;
      for (int k = 0; k < n; k++) s += A[i * n + k] * B[k * n + j];
      C[i * n + j] = s;
    }
#endif
}
