// honest: counts in bytes, which are added to the result before they can be full
// problem: histogram
#include <string.h>
#include <stdint.h>

enum { MOST = 1024, PART = 255 };

void histogram(int n, int bins, const int *key, int *count) {
  uint8_t few[4][MOST];
  memset(count, 0, sizeof *count * bins);
  if (bins > MOST) {
    for (int i = 0; i < n; i++) count[key[i]]++;
    return;
  }
  for (int from = 0; from < n; from += 4 * PART) {
    int until = from + 4 * PART < n ? from + 4 * PART : n, i = from;
    for (int c = 0; c < 4; c++) memset(few[c], 0, bins);
    for (; i + 4 <= until; i += 4)
      for (int c = 0; c < 4; c++) few[c][key[i + c]]++;
    for (int k = 0; k < bins; k++) count[k] += few[0][k] + few[1][k] + few[2][k] + few[3][k];
    for (; i < until; i++) count[key[i]]++;
  }
}
