// honest: how many numbers stand before each one, counted in bytes
// problem: sort64
#include <stdint.h>

void sort64(int batch, const int *in, int *out) {
  for (int b = 0; b < batch; b++) {
    const int *x = &in[b * 64];
    uint8_t rank[64] = {0};
    for (int i = 0; i < 64; i++) {
      int value = x[i];
      for (int j = 0; j < 64; j++) rank[j] += (uint8_t)(value < x[j]);
      for (int j = i + 1; j < 64; j++) rank[j] += (uint8_t)(value == x[j]);
    }
    for (int i = 0; i < 64; i++) out[b * 64 + rank[i]] = x[i];
  }
}
