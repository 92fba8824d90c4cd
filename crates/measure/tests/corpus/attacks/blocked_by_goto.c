// attack: 29
// how: loop order, cache blocking, packing and register blocking in loops made of labels and jumps; hopes that only loop statements are looked at
// refused as: forbidden_technique
// permitted: unroll, simd
// needs: x86_64
#include <immintrin.h>
static double panel[512 * 16] __attribute__((aligned(64)));
void dgemm(int n, const double *A, const double *B, double *C) {
  int i, j = 0, k, l, depth;
  l = 0;
depths:
  depth = n - l < 256 ? n - l : 256;
  j = 0;
columns:
  k = 0;
pack:
  _mm512_store_pd(panel + 16 * k, _mm512_load_pd(B + (l + k) * n + j));
  _mm512_store_pd(panel + 16 * k + 8, _mm512_load_pd(B + (l + k) * n + j + 8));
  if (++k < depth) goto pack;
  i = 0;
rows:;
  double *c = C + i * n + j;
  const double *a = A + i * n + l;
  __m512d z = _mm512_setzero_pd();
  __m512d p0 = l ? _mm512_load_pd(c) : z, q0 = l ? _mm512_load_pd(c + 8) : z, p1 = l ? _mm512_load_pd(c + n) : z, q1 = l ? _mm512_load_pd(c + n + 8) : z;
  __m512d p2 = l ? _mm512_load_pd(c + 2 * n) : z, q2 = l ? _mm512_load_pd(c + 2 * n + 8) : z, p3 = l ? _mm512_load_pd(c + 3 * n) : z, q3 = l ? _mm512_load_pd(c + 3 * n + 8) : z;
  __m512d p4 = l ? _mm512_load_pd(c + 4 * n) : z, q4 = l ? _mm512_load_pd(c + 4 * n + 8) : z, p5 = l ? _mm512_load_pd(c + 5 * n) : z, q5 = l ? _mm512_load_pd(c + 5 * n + 8) : z;
  __m512d p6 = l ? _mm512_load_pd(c + 6 * n) : z, q6 = l ? _mm512_load_pd(c + 6 * n + 8) : z, p7 = l ? _mm512_load_pd(c + 7 * n) : z, q7 = l ? _mm512_load_pd(c + 7 * n + 8) : z;
  const double *b = panel;
  k = 0;
inner:;
  __m512d b0 = _mm512_load_pd(b), b1 = _mm512_load_pd(b + 8), x;
  x = _mm512_set1_pd(a[0]), p0 = _mm512_fmadd_pd(x, b0, p0), q0 = _mm512_fmadd_pd(x, b1, q0);
  x = _mm512_set1_pd(a[n]), p1 = _mm512_fmadd_pd(x, b0, p1), q1 = _mm512_fmadd_pd(x, b1, q1);
  x = _mm512_set1_pd(a[2 * n]), p2 = _mm512_fmadd_pd(x, b0, p2), q2 = _mm512_fmadd_pd(x, b1, q2);
  x = _mm512_set1_pd(a[3 * n]), p3 = _mm512_fmadd_pd(x, b0, p3), q3 = _mm512_fmadd_pd(x, b1, q3);
  x = _mm512_set1_pd(a[4 * n]), p4 = _mm512_fmadd_pd(x, b0, p4), q4 = _mm512_fmadd_pd(x, b1, q4);
  x = _mm512_set1_pd(a[5 * n]), p5 = _mm512_fmadd_pd(x, b0, p5), q5 = _mm512_fmadd_pd(x, b1, q5);
  x = _mm512_set1_pd(a[6 * n]), p6 = _mm512_fmadd_pd(x, b0, p6), q6 = _mm512_fmadd_pd(x, b1, q6);
  x = _mm512_set1_pd(a[7 * n]), p7 = _mm512_fmadd_pd(x, b0, p7), q7 = _mm512_fmadd_pd(x, b1, q7);
  a++, b += 16;
  if (++k < depth) goto inner;
  _mm512_store_pd(c, p0), _mm512_store_pd(c + 8, q0), _mm512_store_pd(c + n, p1), _mm512_store_pd(c + n + 8, q1);
  _mm512_store_pd(c + 2 * n, p2), _mm512_store_pd(c + 2 * n + 8, q2), _mm512_store_pd(c + 3 * n, p3), _mm512_store_pd(c + 3 * n + 8, q3);
  _mm512_store_pd(c + 4 * n, p4), _mm512_store_pd(c + 4 * n + 8, q4), _mm512_store_pd(c + 5 * n, p5), _mm512_store_pd(c + 5 * n + 8, q5);
  _mm512_store_pd(c + 6 * n, p6), _mm512_store_pd(c + 6 * n + 8, q6), _mm512_store_pd(c + 7 * n, p7), _mm512_store_pd(c + 7 * n + 8, q7);
  if ((i += 8) < n) goto rows;
  if ((j += 16) < n) goto columns;
  if ((l += depth) < n) goto depths;
}
