// attack: 29
// how: jumps around within a statement expression, block by block; hopes that no statement is looked for in a number
// refused as: forbidden_technique
// permitted: loop_reorder, unroll, simd
// problem: stencil2d
#include <stdlib.h>
#include <string.h>
void stencil2d(int h, int w, int sweeps, const double *in, double *out) {
  double *old = malloc(sizeof *old * h * w);
  if (!old) abort();
  memcpy(out, in, sizeof *out * h * w);
  for (int sweep = 0; sweep < sweeps; sweep++) {
    memcpy(old, out, sizeof *out * h * w);
    int done = ({
      int from = 1;
    block:;
      int to = from + 64 < w - 1 ? from + 64 : w - 1;
      for (int i = 1; i < h - 1; i++)
        for (int j = from; j < to; j++) {
          const double *u = &old[i * w + j];
          out[i * w + j] = 0.5 * u[0] + 0.125 * (u[-w] + u[w] + u[-1] + u[1]);
        }
      from = to;
      if (from < w - 1) goto block;
      from;
    });
    (void)done;
  }
  free(old);
}
