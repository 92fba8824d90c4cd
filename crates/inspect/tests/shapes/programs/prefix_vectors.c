/* problem: prefix_sum */
/* techniques: simd */
#include <immintrin.h>
void prefix_sum(int n, const int *in, int *out) {
  __m128i before = _mm_setzero_si128();
  int i = 0, sum = 0;
  for (; i + 4 <= n; i += 4) {
    __m128i x = _mm_loadu_si128((const __m128i *)&in[i]);
    x = _mm_add_epi32(x, _mm_slli_si128(x, 4));
    x = _mm_add_epi32(x, _mm_slli_si128(x, 8));
    x = _mm_add_epi32(x, before);
    _mm_storeu_si128((__m128i *)&out[i], x);
    before = _mm_shuffle_epi32(x, 0xff);
  }
  sum = i ? out[i - 1] : 0;
  for (; i < n; i++) out[i] = sum += in[i];
}
