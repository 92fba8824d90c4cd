/* problem: floyd_warshall */
/* techniques: unroll+simd+branch_removal */
#include <immintrin.h>
void floyd_warshall(int n, const int *weight, int *length) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) length[i * n + j] = i == j ? 0 : weight[i * n + j];
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++) {
      __m256i first = _mm256_set1_epi32(length[i * n + k]);
      int j = 0;
      for (; j + 16 <= n; j += 16) {
        __m256i a = _mm256_add_epi32(first, _mm256_loadu_si256((const __m256i *)&length[k * n + j]));
        __m256i b = _mm256_add_epi32(first, _mm256_loadu_si256((const __m256i *)&length[k * n + j + 8]));
        a = _mm256_min_epi32(a, _mm256_loadu_si256((const __m256i *)&length[i * n + j]));
        b = _mm256_min_epi32(b, _mm256_loadu_si256((const __m256i *)&length[i * n + j + 8]));
        _mm256_storeu_si256((__m256i *)&length[i * n + j], a);
        _mm256_storeu_si256((__m256i *)&length[i * n + j + 8], b);
      }
      for (; j < n; j++) {
        int way = length[i * n + k] + length[k * n + j];
        length[i * n + j] = way < length[i * n + j] ? way : length[i * n + j];
      }
    }
}
