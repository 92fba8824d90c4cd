// honest: adds the image once for each weight, shifted, and never looks at one output twice in a row
// problem: conv2d
#include <string.h>
void conv2d(int h, int w, int k, const float *in, const float *weight, float *out) {
  memset(out, 0, sizeof *out * h * w);
  for (int tap = k * k - 1; tap >= 0; tap--)
    for (int i = 0; i < h; i++) {
      const float *x = &in[(i + tap / k) * (w + k - 1) + tap % k];
      for (int j = 0; j < w; j++) out[i * w + j] += weight[tap] * x[j];
    }
}
