// register_blocking+packing+simd
#include <stdlib.h>
typedef double V __attribute__((vector_size(32), aligned(8), may_alias));
static inline __attribute__((always_inline)) void micro(int n, const double *restrict a, const double *restrict p, double *restrict c) {
  V s00 = {0}, s01 = {0}, s10 = {0}, s11 = {0};
  for (int k = 0; k < n; k++) {
    V b0 = *(const V *)&p[k * 8], b1 = *(const V *)&p[k * 8 + 4];
    s00 += a[k] * b0;
    s01 += a[k] * b1;
    s10 += a[n + k] * b0;
    s11 += a[n + k] * b1;
  }
  *(V *)&c[0] = s00;
  *(V *)&c[4] = s01;
  *(V *)&c[n] = s10;
  *(V *)&c[n + 4] = s11;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  double *panels = aligned_alloc(64, sizeof(double) * n * n);
  for (int j = 0; j < n; j += 8)
    for (int k = 0; k < n; k++)
      for (int s = 0; s < 8; s++) panels[j * n + k * 8 + s] = B[k * n + j + s];
  for (int i = 0; i < n; i += 2)
    for (int j = 0; j < n; j += 8) micro(n, A + i * n, panels + j * n, C + i * n + j);
  free(panels);
}
