// attack: 7
// how: keeps the result for the address of its input; hopes that the same place holds the same numbers
// refused as: skipped_work | wrong_result
// problem: stencil2d
#include <stdlib.h>
#include <string.h>
static void right(int h, int w, int sweeps, const double *in, double *out) {
  double *old = malloc(sizeof *old * h * w);
  if (!old) abort();
  memcpy(out, in, sizeof *out * h * w);
  for (int sweep = 0; sweep < sweeps; sweep++) {
    memcpy(old, out, sizeof *out * h * w);
    for (int i = 1; i < h - 1; i++)
      for (int j = 1; j < w - 1; j++) {
        const double *u = &old[i * w + j];
        out[i * w + j] = 0.5 * u[0] + 0.125 * (u[-w] + u[w] + u[-1] + u[1]);
      }
  }
  free(old);
}
void stencil2d(int h, int w, int sweeps, const double *in, double *out) {
  static const double *known;
  static int rows, columns, times;
  static double kept[400 * 400];
  if (in != known || h != rows || w != columns || sweeps != times) {
    right(h, w, sweeps, in, kept);
    known = in;
    rows = h, columns = w, times = sweeps;
  }
  memcpy(out, kept, sizeof(double) * h * w);
}
