/* problem: dgemm */
/* techniques: loop_reorder+cache_blocking+register_blocking+packing+simd */
#include <immintrin.h>
#include <stdlib.h>
enum { MC = 64, KC = 128, NC = 256, MR = 4, NR = 8 };
static void pack_a(int n, const double *a, double *to) {
  for (int i = 0; i < MC; i += MR)
    for (int k = 0; k < KC; k++)
      for (int r = 0; r < MR; r++) *to++ = a[(i + r) * n + k];
}
static void pack_b(int n, const double *b, double *to) {
  for (int j = 0; j < NC; j += NR)
    for (int k = 0; k < KC; k++)
      for (int s = 0; s < NR; s++) *to++ = b[k * n + j + s];
}
static inline void kernel(int n, const double *a, const double *b, double *c) {
  __m256d c00 = _mm256_loadu_pd(c), c01 = _mm256_loadu_pd(c + 4);
  __m256d c10 = _mm256_loadu_pd(c + n), c11 = _mm256_loadu_pd(c + n + 4);
  __m256d c20 = _mm256_loadu_pd(c + 2 * n), c21 = _mm256_loadu_pd(c + 2 * n + 4);
  __m256d c30 = _mm256_loadu_pd(c + 3 * n), c31 = _mm256_loadu_pd(c + 3 * n + 4);
  for (int k = 0; k < KC; k++, a += MR, b += NR) {
    __m256d b0 = _mm256_load_pd(b), b1 = _mm256_load_pd(b + 4);
    __m256d x = _mm256_broadcast_sd(a);
    c00 = _mm256_fmadd_pd(x, b0, c00);
    c01 = _mm256_fmadd_pd(x, b1, c01);
    x = _mm256_broadcast_sd(a + 1);
    c10 = _mm256_fmadd_pd(x, b0, c10);
    c11 = _mm256_fmadd_pd(x, b1, c11);
    x = _mm256_broadcast_sd(a + 2);
    c20 = _mm256_fmadd_pd(x, b0, c20);
    c21 = _mm256_fmadd_pd(x, b1, c21);
    x = _mm256_broadcast_sd(a + 3);
    c30 = _mm256_fmadd_pd(x, b0, c30);
    c31 = _mm256_fmadd_pd(x, b1, c31);
  }
  _mm256_storeu_pd(c, c00), _mm256_storeu_pd(c + 4, c01);
  _mm256_storeu_pd(c + n, c10), _mm256_storeu_pd(c + n + 4, c11);
  _mm256_storeu_pd(c + 2 * n, c20), _mm256_storeu_pd(c + 2 * n + 4, c21);
  _mm256_storeu_pd(c + 3 * n, c30), _mm256_storeu_pd(c + 3 * n + 4, c31);
}
void dgemm(int n, const double *A, const double *B, double *C) {
  double *pa = aligned_alloc(64, sizeof(double) * MC * KC), *pb = aligned_alloc(64, sizeof(double) * KC * NC);
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int jc = 0; jc < n; jc += NC)
    for (int kc = 0; kc < n; kc += KC) {
      pack_b(n, &B[kc * n + jc], pb);
      for (int ic = 0; ic < n; ic += MC) {
        pack_a(n, &A[ic * n + kc], pa);
        for (int jr = 0; jr < NC; jr += NR)
          for (int ir = 0; ir < MC; ir += MR) kernel(n, pa + ir * KC, pb + jr * KC, &C[(ic + ir) * n + jc + jr]);
      }
    }
  free(pa), free(pb);
}
