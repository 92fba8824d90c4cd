#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A sweep is a mean with positive weights, so the sweeps of |in| are the sum of what is added, without signs. It has four
   additions, and its weights are powers of two, whose products are exact; with errors of either sign, the sweeps add up
   to some of sqrt(sweeps) times as many roundings. */
void stencil2d_magnitude(int h, int w, int sweeps, const double *in, double *out)
{
    double *old = malloc(sizeof *old * h * w);
    if (!old)
        abort();
    for (int i = 0; i < h * w; i++)
        out[i] = fabs(in[i]);
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
