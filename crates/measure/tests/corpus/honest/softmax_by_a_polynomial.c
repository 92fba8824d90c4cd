// honest: powers by six terms of a series, sixteen numbers at a time, and masks for what is left of a row
// needs: x86_64
// problem: softmax
#include <immintrin.h>
#include <math.h>
#ifdef __AVX512F__
static inline __m512 raised(__m512 x) {
  __m512 twos = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
  __m512 rest = _mm512_fnmadd_ps(twos, _mm512_set1_ps(0.693359375f), x);
  rest = _mm512_fnmadd_ps(twos, _mm512_set1_ps(-2.12194440e-4f), rest);
  __m512 sum = _mm512_set1_ps(1 / 720.0f);
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1 / 120.0f));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1 / 24.0f));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1 / 6.0f));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0.5f));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1.0f));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(sum, twos);
}
static __attribute__((noipa)) void rows(int from, int to, int n, const float *in, float *out) {
  int whole = n & ~15;
  __mmask16 left = (1u << (n & 15)) - 1;
  for (int i = from; i < to; i++) {
    const float *x = &in[(long)i * n];
    float *y = &out[(long)i * n];
    __m512 top = _mm512_set1_ps(x[0]), sum = _mm512_setzero_ps(), other = sum;
    int j = 0;
    for (; j < whole; j += 16) top = _mm512_max_ps(top, _mm512_loadu_ps(&x[j]));
    if (left) top = _mm512_mask_max_ps(top, left, top, _mm512_maskz_loadu_ps(left, &x[j]));
    __m512 most = _mm512_set1_ps(_mm512_reduce_max_ps(top));
    j = 0;
    for (; j + 32 <= n; j += 32) {
      __m512 a = raised(_mm512_sub_ps(_mm512_loadu_ps(&x[j]), most));
      __m512 b = raised(_mm512_sub_ps(_mm512_loadu_ps(&x[j + 16]), most));
      _mm512_storeu_ps(&y[j], a);
      _mm512_storeu_ps(&y[j + 16], b);
      sum = _mm512_add_ps(sum, a);
      other = _mm512_add_ps(other, b);
    }
    for (; j < whole; j += 16) {
      __m512 a = raised(_mm512_sub_ps(_mm512_loadu_ps(&x[j]), most));
      _mm512_storeu_ps(&y[j], a);
      sum = _mm512_add_ps(sum, a);
    }
    if (left) {
      __m512 a = raised(_mm512_sub_ps(_mm512_maskz_loadu_ps(left, &x[j]), most));
      _mm512_mask_storeu_ps(&y[j], left, a);
      sum = _mm512_mask_add_ps(sum, left, sum, a);
    }
    __m512 share = _mm512_set1_ps(1.0f / _mm512_reduce_add_ps(_mm512_add_ps(sum, other)));
    for (j = 0; j < whole; j += 16) _mm512_storeu_ps(&y[j], _mm512_mul_ps(share, _mm512_loadu_ps(&y[j])));
    if (left) _mm512_mask_storeu_ps(&y[j], left, _mm512_mul_ps(share, _mm512_maskz_loadu_ps(left, &y[j])));
  }
}
#else
static __attribute__((noipa)) void rows(int from, int to, int n, const float *in, float *out) {
  for (int i = from; i < to; i++) {
    const float *x = &in[(long)i * n];
    float *y = &out[(long)i * n], most = x[0];
    double sum = 0;
    for (int j = 1; j < n; j++) most = x[j] > most ? x[j] : most;
    for (int j = 0; j < n; j++) sum += y[j] = expf(x[j] - most);
    for (int j = 0; j < n; j++) y[j] /= sum;
  }
}
#endif
void softmax(int m, int n, const float *in, float *out) { rows(0, m, n, in, out); }
