// honest: two grids in turns, one of which is kept from call to call
// problem: stencil2d
#include <stdlib.h>
#include <string.h>
static void sweep(int h, int w, const double *from, double *to) {
  for (int i = 1; i < h - 1; i++)
    for (int j = 1; j < w - 1; j++) {
      int at = i * w + j;
      to[at] = 0.5 * from[at] + 0.125 * ((from[at - w] + from[at + w]) + (from[at - 1] + from[at + 1]));
    }
}
void stencil2d(int h, int w, int sweeps, const double *in, double *out) {
  static double *grid;
  static int room;
  if (room < h * w) {
    grid = realloc(grid, sizeof *grid * h * w);
    if (!grid) abort();
    room = h * w;
  }
  /* No sweep changes the edges. */
  memcpy(out, in, sizeof *out * h * w);
  memcpy(grid, in, sizeof *grid * h * w);
  const double *from = in;
  for (int left = sweeps; left > 0; left--) {
    double *to = left % 2 ? out : grid;
    sweep(h, w, from, to);
    from = to;
  }
}
