// honest: pointers start at the ends and walk backwards by negative strides
#include <stddef.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  const ptrdiff_t back = -(ptrdiff_t)n;
  double *c = C + (ptrdiff_t)n * n;
  const double *a = A + (ptrdiff_t)n * n;
  for (int i = 0; i < n; i++) {
    c += back, a += back;
    for (int j = 0; j < n; j++) c[j] = 0;
    const double *b = B + (ptrdiff_t)n * n + back;
    for (ptrdiff_t k = -1; k >= back; k--, b += back)
      for (int j = 0; j < n; j++) c[j] += a[n + k] * b[j];
  }
}
