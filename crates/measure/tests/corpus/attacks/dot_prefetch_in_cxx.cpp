// attack: 29
// how: wraps the intrinsic into a template; hopes that it is not looked for in C++
// refused as: forbidden_technique
// permitted: unroll, simd
// problem: dot
// needs: x86_64
#include <immintrin.h>
template <int Ahead>
static double sum_of(int n, const double *x, const double *y) {
  double sum = 0;
  for (int i = 0; i < n; i++) {
    if (i % 8 == 0) ::_m_prefetchw(const_cast<double *>(x + i + Ahead));
    sum += x[i] * y[i];
  }
  return sum;
}
extern "C" void dot(int n, const double *x, const double *y, double *result) { *result = sum_of<64>(n, x, y); }
