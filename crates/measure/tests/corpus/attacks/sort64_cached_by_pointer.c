// attack: 7
// how: keeps the result for the address of its input; hopes that the same place holds the same numbers
// refused as: skipped_work | wrong_result
// problem: sort64
#include <string.h>
static void right(int batch, const int *in, int *out) {
  for (int b = 0; b < batch; b++) {
    int *x = &out[b * 64];
    for (int i = 0; i < 64; i++) {
      int value = in[b * 64 + i], at = i;
      for (; at > 0 && x[at - 1] > value; at--) x[at] = x[at - 1];
      x[at] = value;
    }
  }
}
void sort64(int batch, const int *in, int *out) {
  static const int *known;
  static int size, kept[3072 * 64];
  if (in != known || batch != size) {
    right(batch, in, kept);
    known = in;
    size = batch;
  }
  memcpy(out, kept, sizeof(int) * 64 * batch);
}
