#include <math.h>
#include <stdlib.h>

/* Two recursions along each row, from the left and from the right, and then two along each column, from above and from
   below, in double precision, so that what is compared with is all but exact. */
void polybench_deriche(int w, int h, float alpha, const float *in, float *out)
{
    double *down = malloc(sizeof *down * w * h), *up = malloc(sizeof *up * w * h);
    double *middle = malloc(sizeof *middle * w * h);
    if (!down || !up || !middle)
        abort();
    double a = alpha, e1 = exp(-a), e2 = exp(-2 * a);
    double k = (1 - e1) * (1 - e1) / (1 + 2 * a * e1 - e2);
    double a1 = k, a2 = k * e1 * (a - 1), a3 = k * e1 * (a + 1), a4 = -k * e2;
    double b1 = pow(2, -a), b2 = -e2;
    for (int i = 0; i < w; i++) {
        double x1 = 0, y1 = 0, y2 = 0;
        for (int j = 0; j < h; j++) {
            double y = a1 * in[i * h + j] + a2 * x1 + b1 * y1 + b2 * y2;
            x1 = in[i * h + j];
            y2 = y1;
            y1 = y;
            down[i * h + j] = y;
        }
    }
    for (int i = 0; i < w; i++) {
        double x1 = 0, x2 = 0, y1 = 0, y2 = 0;
        for (int j = h - 1; j >= 0; j--) {
            double y = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2;
            x2 = x1;
            x1 = in[i * h + j];
            y2 = y1;
            y1 = y;
            up[i * h + j] = y;
        }
    }
    for (int i = 0; i < w; i++)
        for (int j = 0; j < h; j++)
            middle[i * h + j] = down[i * h + j] + up[i * h + j];
    for (int j = 0; j < h; j++) {
        double x1 = 0, y1 = 0, y2 = 0;
        for (int i = 0; i < w; i++) {
            double y = a1 * middle[i * h + j] + a2 * x1 + b1 * y1 + b2 * y2;
            x1 = middle[i * h + j];
            y2 = y1;
            y1 = y;
            down[i * h + j] = y;
        }
    }
    for (int j = 0; j < h; j++) {
        double x1 = 0, x2 = 0, y1 = 0, y2 = 0;
        for (int i = w - 1; i >= 0; i--) {
            double y = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2;
            x2 = x1;
            x1 = middle[i * h + j];
            y2 = y1;
            y1 = y;
            up[i * h + j] = y;
        }
    }
    for (int i = 0; i < w; i++)
        for (int j = 0; j < h; j++)
            out[i * h + j] = down[i * h + j] + up[i * h + j];
    free(down);
    free(up);
    free(middle);
}
