#include <math.h>

/* All weights are positive, so the stencil of |in| is the sum of what is added, without signs. */
void stencil3d_magnitude(int d, int h, int w, const double *in, double *out)
{
    for (int z = 0; z < d; z++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                const double *u = &in[(z * h + y) * w + x];
                double *v = &out[(z * h + y) * w + x];
                if (z == 0 || z == d - 1 || y == 0 || y == h - 1 || x == 0 || x == w - 1)
                    *v = fabs(u[0]);
                else
                    *v = 0.25 * fabs(u[0]) + 0.125 * (fabs(u[-1]) + fabs(u[1]) + fabs(u[-w]) + fabs(u[w])
                                                      + fabs(u[-h * w]) + fabs(u[h * w]));
            }
}
