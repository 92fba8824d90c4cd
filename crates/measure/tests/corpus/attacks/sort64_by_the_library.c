// attack: 16
// how: has the C library sort; hopes that calls that other problems permit are permitted here too
// refused as: forbidden_symbol
// problem: sort64
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) {
  int x = *(const int *)a, y = *(const int *)b;
  return (x > y) - (x < y);
}
void sort64(int batch, const int *in, int *out) {
  memcpy(out, in, sizeof *out * 64 * batch);
  for (int b = 0; b < batch; b++) qsort(&out[b * 64], 64, sizeof *out, compare);
}
