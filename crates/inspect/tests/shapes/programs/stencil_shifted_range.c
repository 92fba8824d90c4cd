/* problem: stencil2d */
/* techniques: none */
#include <stdlib.h>
void stencil2d(int h, int w, int sweeps, const double *in, double *out) {
  double *old = malloc(sizeof(*old) * h * w);
  if (!old) abort();
  for (int i = 0; i < h * w; i++) out[i] = in[i];
  for (int t = 0; t < sweeps; t++) {
    for (int i = 0; i < h; i++)
      for (int j = 2 * t; j < 2 * t + w; j++) old[i * w + j - 2 * t] = out[i * w + j - 2 * t];
    for (int i = 1; i < h - 1; i++)
      for (int j = 2 * t + 1; j < 2 * t + w - 1; j++) {
        const double *x = old + i * w + j - 2 * t;
        out[i * w + j - 2 * t] = 0.5 * x[0] + 0.125 * (x[-w] + x[w] + x[-1] + x[1]);
      }
  }
  free(old);
}
