#include <math.h>

void zmul_magnitude(int n, const double _Complex *x, double _Complex *y) {
  const double *a = (const double *)x;
  double *b = (double *)y;
  for (int i = 0; i < n; i++) {
    double p = fabs(a[2 * i]), q = fabs(a[2 * i + 1]), r = fabs(b[2 * i]), s = fabs(b[2 * i + 1]);
    b[2 * i] = p * r + q * s;
    b[2 * i + 1] = p * s + q * r;
  }
}
