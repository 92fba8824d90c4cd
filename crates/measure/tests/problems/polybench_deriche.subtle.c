/* Rounds the scale of the filter to twelve bits. */
#include <math.h>
#include <stdlib.h>

void polybench_deriche(int w, int h, float alpha, const float *in, float *out)
{
    float *mid = malloc(sizeof *mid * w * h);
    double a = alpha, e1 = exp(-a), e2 = exp(-2 * a), k = (1 - e1) * (1 - e1) / (1 + 2 * a * e1 - e2);
    k = rint(k * 4096) / 4096;
    double a1 = k, a2 = k * e1 * (a - 1), a3 = k * e1 * (a + 1), a4 = -k * e2, b1 = pow(2, -a), b2 = -e2;
    for (int i = 0; i < w; i++) {
        double x1 = 0, x2 = 0, y1 = 0, y2 = 0;
        for (int j = 0; j < h; j++) {
            double y = a1 * in[i * h + j] + a2 * x1 + b1 * y1 + b2 * y2;
            x1 = in[i * h + j];
            y2 = y1;
            mid[i * h + j] = y1 = y;
        }
        x1 = y1 = y2 = 0;
        for (int j = h - 1; j >= 0; j--) {
            double y = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2;
            x2 = x1;
            x1 = in[i * h + j];
            y2 = y1;
            mid[i * h + j] += y1 = y;
        }
    }
    for (int j = 0; j < h; j++) {
        double x1 = 0, x2 = 0, y1 = 0, y2 = 0;
        for (int i = 0; i < w; i++) {
            double y = a1 * mid[i * h + j] + a2 * x1 + b1 * y1 + b2 * y2;
            x1 = mid[i * h + j];
            y2 = y1;
            out[i * h + j] = y1 = y;
        }
        x1 = y1 = y2 = 0;
        for (int i = w - 1; i >= 0; i--) {
            double y = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2;
            x2 = x1;
            x1 = mid[i * h + j];
            y2 = y1;
            out[i * h + j] += y1 = y;
        }
    }
    free(mid);
}
