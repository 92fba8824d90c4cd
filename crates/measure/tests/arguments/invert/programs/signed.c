// verified: wrong_result
#include <stdint.h>

void invert(int h, int w, const uint8_t *in, uint8_t *out) {
  for (int i = 0; i < h * w; i++) out[i] = in[i] == 128 ? 128 : 255 - in[i];
}
