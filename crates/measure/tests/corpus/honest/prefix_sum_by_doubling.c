// honest: each number takes in the one 1, 2, 4 and 8 places before it, in a copy of sixteen
// problem: prefix_sum
#include <string.h>
void prefix_sum(int n, const int *in, int *out) {
  int carry = 0, i = 0;
  for (; i + 16 <= n; i += 16) {
    int room[32] = {0}, *x = room + 16, next[16];
    memcpy(x, in + i, sizeof next);
    for (int far = 1; far < 16; far <<= 1) {
      for (int j = 0; j < 16; j++) next[j] = x[j] + x[j - far];
      memcpy(x, next, sizeof next);
    }
    for (int j = 0; j < 16; j++) out[i + j] = carry + x[j];
    carry += x[15];
  }
  for (; i < n; i++) out[i] = carry += in[i];
}
