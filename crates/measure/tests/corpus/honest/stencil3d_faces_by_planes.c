// honest: copies whole planes and rows, and computes what lies inside of them
// problem: stencil3d
#include <string.h>
void stencil3d(int d, int h, int w, const double *in, double *out) {
  const double(*u)[h][w] = (const void *)in;
  double(*v)[h][w] = (void *)out;
  memcpy(out, in, sizeof *u * d);
  for (int z = 1; z + 1 < d; z++)
    for (int y = 1; y + 1 < h; y++)
      for (int x = 1; x + 1 < w; x++)
        v[z][y][x] = (2 * u[z][y][x] + u[z - 1][y][x] + u[z + 1][y][x] + u[z][y - 1][x] + u[z][y + 1][x] + u[z][y][x - 1] + u[z][y][x + 1]) / 8;
}
