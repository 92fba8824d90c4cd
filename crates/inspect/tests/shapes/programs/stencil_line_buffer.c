/* problem: stencil2d */
/* techniques: packing */
#include <stdlib.h>
#include <string.h>
void stencil2d(int h, int w, int sweeps, const double *in, double *out) {
  double *above = malloc(sizeof(double) * w), *here = malloc(sizeof(double) * w);
  memcpy(out, in, sizeof(double) * h * w);
  for (int t = 0; t < sweeps; t++) {
    memcpy(above, out, sizeof(double) * w);
    for (int i = 1; i < h - 1; i++) {
      memcpy(here, &out[i * w], sizeof(double) * w);
      for (int j = 1; j < w - 1; j++)
        out[i * w + j] = 0.5 * here[j] + 0.125 * (above[j] + out[(i + 1) * w + j] + here[j - 1] + here[j + 1]);
      memcpy(above, here, sizeof(double) * w);
    }
  }
  free(above), free(here);
}
