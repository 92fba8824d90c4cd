// right
#include <stdint.h>

void mix64(int n, const int64_t *x, int64_t *y) {
  for (int i = n - 1; i >= 0; i--) y[i] = (x[n - 1 - i] >> 1) + x[i];
}
