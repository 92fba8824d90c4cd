#include <stdint.h>
#include <string.h>

static float from(uint16_t bits) {
  uint32_t word = (uint32_t)bits << 16;
  float x;
  memcpy(&x, &word, sizeof x);
  return x;
}

static uint16_t to(float x) {
  uint32_t word;
  memcpy(&word, &x, sizeof word);
  return (word + 0x7fff + (word >> 16 & 1)) >> 16;
}

void bsquare(int n, const uint16_t *x, uint16_t *y) {
  for (int i = 0; i < n; i++) y[i] = to(from(x[i]) * from(x[i]));
}
