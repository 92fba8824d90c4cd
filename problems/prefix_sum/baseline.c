/* The baseline: eight numbers at a time, added up within a register. It is correct for every size; it must never
   change, or old numbers lose their meaning. */
#include <immintrin.h>

void prefix_sum(int n, const int *in, int *out)
{
    int sum = 0, i = 0;
#ifdef __AVX2__
    const __m256i last = _mm256_set1_epi32(7);
    __m256i before = _mm256_setzero_si256();
    for (; i + 8 <= n; i += 8) {
        __m256i x = _mm256_loadu_si256((const __m256i *)&in[i]);
        /* Running sums of each half, then the sum of the lower half on top of the upper one. */
        x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4));
        x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
        __m256i lower = _mm256_permute2x128_si256(x, x, 0x08);
        x = _mm256_add_epi32(x, _mm256_shuffle_epi32(lower, 0xff));
        _mm256_storeu_si256((__m256i *)&out[i], _mm256_add_epi32(x, before));
        before = _mm256_add_epi32(before, _mm256_permutevar8x32_epi32(x, last));
    }
    sum = _mm256_cvtsi256_si32(before);
#endif
    for (; i < n; i++) {
        sum += in[i];
        out[i] = sum;
    }
}
