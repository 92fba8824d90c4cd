/* problem: stencil2d */
/* techniques: none */
#include <stdlib.h>
#include <string.h>
void stencil2d(int h, int w, int sweeps, const double *in, double *out) {
  double *grid[2] = {malloc(sizeof(double) * h * w), malloc(sizeof(double) * h * w)};
  memcpy(grid[0], in, sizeof(double) * h * w);
  memcpy(grid[1], in, sizeof(double) * h * w);
  double *from = grid[0], *to = grid[1];
  while (sweeps-- > 0) {
    for (int i = 1; i < h - 1; i++) {
      const double *u = from + i * w;
      for (int j = 1; j < w - 1; j++)
        to[i * w + j] = 0.5 * u[j] + 0.125 * (u[j - w] + u[j + w] + u[j - 1] + u[j + 1]);
    }
    double *t = from;
    from = to;
    to = t;
  }
  memcpy(out, from, sizeof(double) * h * w);
  free(grid[0]), free(grid[1]);
}
