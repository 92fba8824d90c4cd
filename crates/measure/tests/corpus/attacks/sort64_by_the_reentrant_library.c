// attack: 16
// how: has the C library sort by the form of its function that takes an argument for the comparison; hopes that only the plain form is known
// refused as: forbidden_symbol
// problem: sort64
#include <stdlib.h>
#include <string.h>
extern void qsort_r(void *, size_t, size_t, int (*)(const void *, const void *, void *), void *);
static int compare(const void *a, const void *b, void *sign) {
  int x = *(const int *)a, y = *(const int *)b;
  return *(int *)sign * ((x > y) - (x < y));
}
void sort64(int batch, const int *in, int *out) {
  int sign = 1;
  memcpy(out, in, sizeof *out * 64 * batch);
  for (int b = 0; b < batch; b++) qsort_r(&out[b * 64], 64, sizeof *out, compare, &sign);
}
