// honest: sums of a few numbers fit in sixteen bits, where the numbers are as small as they are said to be
// problem: prefix_sum
#include <stdint.h>

enum { PART = 16 };

void prefix_sum(int n, const int *in, int *out) {
  int sum = 0, i = 0;
  for (; i + PART <= n; i += PART) {
    int16_t part[PART], next[PART];
    int small = 1;
    for (int j = 0; j < PART; j++) {
      small &= in[i + j] >= -2000 && in[i + j] <= 2000;
      part[j] = (int16_t)in[i + j];
    }
    if (!small) break;
    for (int by = 1; by < PART; by *= 2) {
      for (int j = 0; j < PART; j++) next[j] = j < by ? part[j] : (int16_t)(part[j] + part[j - by]);
      for (int j = 0; j < PART; j++) part[j] = next[j];
    }
    for (int j = 0; j < PART; j++) out[i + j] = sum + part[j];
    sum += part[PART - 1];
  }
  for (; i < n; i++) {
    sum += in[i];
    out[i] = sum;
  }
}
