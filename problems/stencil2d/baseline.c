/* The baseline: sweeps go to and fro between `out` and one scratch grid, a row at a time. It is correct for every size;
   it must never change, or old numbers lose their meaning. */
#include <stdlib.h>
#include <string.h>

static void sweep(int h, int w, const double *from, double *to)
{
    memcpy(to, from, sizeof *to * w);
    for (int i = 1; i < h - 1; i++) {
        const double *u = &from[i * w], *above = u - w, *below = u + w;
        double *restrict x = &to[i * w];
        x[0] = u[0];
        for (int j = 1; j < w - 1; j++)
            x[j] = 0.5 * u[j] + 0.125 * (above[j] + below[j] + u[j - 1] + u[j + 1]);
        x[w - 1] = u[w - 1];
    }
    memcpy(&to[(h - 1) * w], &from[(h - 1) * w], sizeof *to * w);
}

void stencil2d(int h, int w, int sweeps, const double *in, double *out)
{
    double *scratch = malloc(sizeof *scratch * h * w);
    if (!scratch)
        abort();
    const double *from = in;
    for (int left = sweeps; left > 0; left--) {
        /* The last one writes `out`. */
        double *to = left % 2 ? out : scratch;
        sweep(h, w, from, to);
        from = to;
    }
    free(scratch);
}
