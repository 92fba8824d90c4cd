/* problem: conv2d */
/* techniques: loop_reorder+packing */
#include <stdlib.h>
void conv2d(int h, int w, int k, const float *in, const float *weight, float *out) {
  int row = w + k - 1;
  double *sums = malloc(sizeof(double) * w);
  double *f = malloc(sizeof(double) * k * k);
  for (int e = 0; e < k * k; e++) f[e] = weight[e];
  for (int i = 0; i < h; i++) {
    for (int j = 0; j < w; j++) sums[j] = 0;
    for (int p = 0; p < k; p++)
      for (int q = 0; q < k; q++) {
        const float *x = in + (i + p) * row + q;
        for (int j = 0; j < w; j++) sums[j] += f[p * k + q] * x[j];
      }
    for (int j = 0; j < w; j++) out[i * w + j] = sums[j];
  }
  free(sums), free(f);
}
