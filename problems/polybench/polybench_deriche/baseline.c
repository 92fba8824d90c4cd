/* The baseline, in single precision: both recursions of a row at once, and then those of all columns together, row
   by row. It is correct for every size; it must never change, or old numbers lose their meaning. */
#include <math.h>
#include <stdlib.h>

void polybench_deriche(int w, int h, float alpha, const float *in, float *out)
{
    float *down = malloc(sizeof *down * w * h), *rows = calloc((size_t)h * 4, sizeof *rows);
    if (!down || !rows)
        abort();
    double a = alpha, e1 = exp(-a), e2 = exp(-2 * a);
    double k = (1 - e1) * (1 - e1) / (1 + 2 * a * e1 - e2);
    float a1 = k, a2 = k * e1 * (a - 1), a3 = k * e1 * (a + 1), a4 = -k * e2;
    float b1 = pow(2, -a), b2 = -e2;
    for (int i = 0; i < w; i++) {
        const float *x = &in[i * h];
        float *from = &down[i * h], *to = &out[i * h];
        float x1 = 0, y1 = 0, y2 = 0, v1 = 0, v2 = 0, z1 = 0, z2 = 0;
        for (int j = 0; j < h; j++) {
            int back = h - 1 - j;
            float y = a1 * x[j] + a2 * x1 + b1 * y1 + b2 * y2;
            float z = a3 * v1 + a4 * v2 + b1 * z1 + b2 * z2;
            x1 = x[j];
            y2 = y1;
            y1 = y;
            v2 = v1;
            v1 = x[back];
            z2 = z1;
            z1 = z;
            from[j] = y;
            to[back] = z;
        }
        for (int j = 0; j < h; j++)
            to[j] += from[j];
    }
    for (int i = 0; i < w; i++) {
        const float *x = &out[i * h];
        float *y = &down[i * h];
        if (i > 1)
            for (int j = 0; j < h; j++)
                y[j] = a1 * x[j] + a2 * x[j - h] + b1 * y[j - h] + b2 * y[j - 2 * h];
        else if (i == 1)
            for (int j = 0; j < h; j++)
                y[j] = a1 * x[j] + a2 * x[j - h] + b1 * y[j - h];
        else
            for (int j = 0; j < h; j++)
                y[j] = a1 * x[j];
    }
    float *restrict x1 = rows, *restrict x2 = rows + h, *restrict y1 = rows + 2 * h, *restrict y2 = rows + 3 * h;
    for (int i = w - 1; i >= 0; i--) {
        float *restrict x = &out[i * h];
        const float *restrict y = &down[i * h];
        for (int j = 0; j < h; j++) {
            float z = a3 * x1[j] + a4 * x2[j] + b1 * y1[j] + b2 * y2[j];
            x2[j] = x1[j];
            x1[j] = x[j];
            y2[j] = y1[j];
            y1[j] = z;
            x[j] = y[j] + z;
        }
    }
    free(down);
    free(rows);
}
