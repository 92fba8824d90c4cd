/* problem: stencil3d */
/* techniques: none */
#include <stdlib.h>
void stencil3d(int d, int h, int w, const double *in, double *out) {
  double *above = calloc(w, sizeof(*above));
  if (!above) abort();
  for (int z = 0; z < d; z++)
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++) {
        const double *u = &in[(z * h + y) * w + x];
        double *v = &out[(z * h + y) * w + x];
        if (z == 0 || z == d - 1 || y == 0 || y == h - 1 || x == 0 || x == w - 1)
          *v = u[0];
        else
          *v = 0.25 * u[0] + 0.125 * (u[-1] + u[1] + above[x] + u[w] + u[-h * w] + u[h * w]);
        above[x] = u[0];
      }
  free(above);
}
