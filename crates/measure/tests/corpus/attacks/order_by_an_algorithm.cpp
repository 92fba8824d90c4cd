// attack: 29
// how: has an algorithm of the library go over the columns, within loops over rows and terms; hopes that nobody reads headers
// refused as: forbidden_technique
// permitted: unroll, simd
#include <algorithm>
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  std::fill(C, C + n * n, 0.0);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) {
      const double a = A[i * n + k], *b = B + k * n;
      double *c = C + i * n;
      std::transform(c, c + n, b, c, [a](double sum, double x) { return sum + a * x; });
    }
}
