// attack: 10
// how: rounds the vector to forty bits; hopes for a bound in proportion to the sum of all magnitudes, of which no element comes near
// refused as: wrong_result
// problem: walsh_hadamard
#include <string.h>
static double shorter(double x) {
  unsigned long long bits;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x1000) & ~0x1fffull;
  memcpy(&x, &bits, sizeof x);
  return x;
}
void walsh_hadamard(int n, const double *x, double *y) {
  for (int i = 0; i < n; i++) y[i] = shorter(x[i]);
  for (int h = 1; h < n; h *= 2)
    for (int base = 0; base < n; base += 2 * h)
      for (int i = base; i < base + h; i++) {
        double a = y[i], b = y[i + h];
        y[i] = a + b;
        y[i + h] = a - b;
      }
}
