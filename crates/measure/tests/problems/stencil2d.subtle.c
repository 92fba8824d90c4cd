/* Sweeps in place: half of the neighbours are already new. */
#include <string.h>

void stencil2d(int h, int w, int sweeps, const double *in, double *out)
{
    memcpy(out, in, sizeof *out * h * w);
    for (int sweep = 0; sweep < sweeps; sweep++)
        for (int i = 1; i < h - 1; i++)
            for (int j = 1; j < w - 1; j++) {
                double *u = &out[i * w + j];
                u[0] = 0.5 * u[0] + 0.125 * (u[-w] + u[w] + u[-1] + u[1]);
            }
}
