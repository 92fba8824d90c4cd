#include <stdint.h>

void mix64(int n, const int64_t *x, int64_t *y) {
  for (int i = 0; i < n; i++) y[i] = x[i] + (x[n - 1 - i] >> 1);
}
