#include <math.h>

void haxpy_magnitude(int n, float alpha, const _Float16 *x, _Float16 *y) {
  for (int i = 0; i < n; i++) y[i] = (_Float16)(fabsf(alpha * (float)x[i]) + fabsf((float)y[i]));
}
