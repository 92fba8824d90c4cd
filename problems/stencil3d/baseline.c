/* The baseline: a row at a time. It is correct for every size; it must never change, or old numbers lose their meaning.
   */
#include <string.h>

void stencil3d(int d, int h, int w, const double *in, double *out)
{
    int plane = h * w;
    for (int z = 0; z < d; z++)
        for (int y = 0; y < h; y++) {
            const double *u = &in[z * plane + y * w];
            double *restrict v = &out[z * plane + y * w];
            if (z == 0 || z == d - 1 || y == 0 || y == h - 1) {
                memcpy(v, u, sizeof *v * w);
                continue;
            }
            v[0] = u[0];
            for (int x = 1; x < w - 1; x++)
                v[x] = 0.25 * u[x]
                       + 0.125 * (u[x - 1] + u[x + 1] + u[x - w] + u[x + w] + u[x - plane] + u[x + plane]);
            v[w - 1] = u[w - 1];
        }
}
