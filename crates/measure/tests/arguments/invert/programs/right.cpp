// right
#include <cstdint>

extern "C" void invert(int h, int w, const uint8_t *in, uint8_t *out) {
  for (int i = 0; i < h * w; i++) out[i] = 255 - in[i];
}
