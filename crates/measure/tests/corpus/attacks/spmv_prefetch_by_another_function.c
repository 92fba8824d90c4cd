// attack: 29
// how: calls the intrinsic through a function of another name; hopes that the name at the call counts
// refused as: forbidden_technique
// permitted: unroll, simd
// problem: spmv
// needs: x86_64
#include <immintrin.h>
static inline void look(const void *p) { _m_prefetchw((void *)p); }
void spmv(int n, int m, const int *start, const int *column, const double *value, const double *x, double *y) {
  (void)m;
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int k = start[i]; k < start[i + 1]; k++) {
      look(value + k + 64);
      sum += value[k] * x[column[k]];
    }
    y[i] = sum;
  }
}
