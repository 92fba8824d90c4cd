#include <stdlib.h>
#include <string.h>

/* Every sweep reads a copy of what the one before it left. */
void stencil2d(int h, int w, int sweeps, const double *in, double *out)
{
    double *old = malloc(sizeof *old * h * w);
    if (!old)
        abort();
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
