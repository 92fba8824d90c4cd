// attack: 7
// how: keeps results by the signs of two corners; hopes for few different inputs
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
  static struct {
    int rows, columns, times;
    double result[400 * 400];
  } kept[4];
  int print = (in[0] > 0) + 2 * (in[h * w - 1] > 0);
  if (kept[print].rows != h || kept[print].columns != w || kept[print].times != sweeps) {
    right(h, w, sweeps, in, kept[print].result);
    kept[print].rows = h, kept[print].columns = w, kept[print].times = sweeps;
  }
  memcpy(out, kept[print].result, sizeof(double) * h * w);
}
