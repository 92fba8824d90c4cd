/* problem: transpose */
/* techniques: simd */
#include <immintrin.h>
void transpose(int m, int n, const double *A, double *B) {
  int rows = m & ~3, columns = n & ~3;
  for (int i = 0; i < rows; i += 4)
    for (int j = 0; j < columns; j += 4) {
      const double *a = A + i * n + j;
      double *b = B + j * m + i;
      __m256d r0 = _mm256_loadu_pd(a), r1 = _mm256_loadu_pd(a + n);
      __m256d r2 = _mm256_loadu_pd(a + 2 * n), r3 = _mm256_loadu_pd(a + 3 * n);
      __m256d t0 = _mm256_unpacklo_pd(r0, r1), t1 = _mm256_unpackhi_pd(r0, r1);
      __m256d t2 = _mm256_unpacklo_pd(r2, r3), t3 = _mm256_unpackhi_pd(r2, r3);
      _mm256_storeu_pd(b, _mm256_permute2f128_pd(t0, t2, 0x20));
      _mm256_storeu_pd(b + m, _mm256_permute2f128_pd(t1, t3, 0x20));
      _mm256_storeu_pd(b + 2 * m, _mm256_permute2f128_pd(t0, t2, 0x31));
      _mm256_storeu_pd(b + 3 * m, _mm256_permute2f128_pd(t1, t3, 0x31));
    }
  for (int i = 0; i < m; i++)
    for (int j = i < rows ? columns : 0; j < n; j++) B[j * m + i] = A[i * n + j];
}
