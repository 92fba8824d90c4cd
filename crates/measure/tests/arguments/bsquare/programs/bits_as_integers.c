// verified: wrong_result
#include <stdint.h>

void bsquare(int n, const uint16_t *x, uint16_t *y) {
  for (int i = 0; i < n; i++) y[i] = x[i] * x[i];
}
