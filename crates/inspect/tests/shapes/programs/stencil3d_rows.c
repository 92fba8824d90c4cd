/* problem: stencil3d */
/* techniques: branch_removal */
#include <string.h>
void stencil3d(int d, int h, int w, const double *in, double *out) {
  for (int z = 0; z < d; z++)
    for (int y = 0; y < h; y++) {
      const double *u = in + (z * h + y) * w;
      double *v = out + (z * h + y) * w;
      if (z == 0 || z == d - 1 || y == 0 || y == h - 1) {
        memcpy(v, u, sizeof *v * w);
      } else {
        v[0] = u[0];
        for (int x = 1; x < w - 1; x++)
          v[x] = 0.25 * u[x] + 0.125 * (u[x - 1] + u[x + 1] + u[x - w] + u[x + w] + u[x - h * w] + u[x + h * w]);
        v[w - 1] = u[w - 1];
      }
    }
}
