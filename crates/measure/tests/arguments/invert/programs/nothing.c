// verified: wrong_result
#include <stdint.h>

void invert(int h, int w, const uint8_t *in, uint8_t *out) {
}
