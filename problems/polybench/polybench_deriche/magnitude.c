#include <math.h>
#include <stdlib.h>

struct filter {
    double a1, a2, a3, a4, b1, b2, decay, gain;
};

/* One line of numbers x with errors `wrong`: the sum of both recursions goes to `sum`, and its error to `off`. Each
   step rounds the four terms some times. The response of a recursion to a change is sin((k + 1)·t)/sin(t)·decay^k
   after k steps, and its size is at most gain·decay^k. */
static void line(const struct filter *f, int count, int step, const double *x, const double *wrong, double *sum,
                 double *off)
{
    double x1 = 0, x2 = 0, w1 = 0, w2 = 0, y1 = 0, y2 = 0, kept = 0;
    for (int n = 0; n < count; n++) {
        double here = x[n * step], w = wrong[n * step];
        double size = fabs(f->a1 * here) + fabs(f->a2 * x1) + fabs(f->b1 * y1) + fabs(f->b2 * y2);
        double y = f->a1 * here + f->a2 * x1 + f->b1 * y1 + f->b2 * y2;
        kept = f->decay * kept + size + fabs(f->a1) * w + fabs(f->a2) * w1;
        sum[n * step] = y;
        off[n * step] = f->gain * kept;
        x1 = here;
        w1 = w;
        y2 = y1;
        y1 = y;
    }
    x1 = w1 = y1 = y2 = kept = 0;
    for (int n = count - 1; n >= 0; n--) {
        double size = fabs(f->a3 * x1) + fabs(f->a4 * x2) + fabs(f->b1 * y1) + fabs(f->b2 * y2);
        double y = f->a3 * x1 + f->a4 * x2 + f->b1 * y1 + f->b2 * y2;
        kept = f->decay * kept + size + fabs(f->a3) * w1 + fabs(f->a4) * w2;
        sum[n * step] += y;
        off[n * step] += f->gain * kept;
        x2 = x1;
        w2 = w1;
        x1 = x[n * step];
        w1 = wrong[n * step];
        y2 = y1;
        y1 = y;
    }
}

/* The errors of the rows, which the columns pass on, and those of the columns, in roundings of the terms.
   Coefficients in single precision are off by some roundings as well, most of them in 1 - exp(-alpha). */
void polybench_deriche_magnitude(int w, int h, float alpha, const float *in, float *out)
{
    size_t count = (size_t)w * h;
    double *x = malloc(sizeof *x * count), *wrong = calloc(count, sizeof *wrong);
    double *sum = malloc(sizeof *sum * count), *off = malloc(sizeof *off * count);
    if (!x || !wrong || !sum || !off)
        abort();
    double a = alpha, e1 = exp(-a), e2 = exp(-2 * a);
    double k = (1 - e1) * (1 - e1) / (1 + 2 * a * e1 - e2), half = pow(2, -a) / 2 / e1;
    struct filter f = {k, k * e1 * (a - 1), k * e1 * (a + 1), -k * e2, pow(2, -a), -e2, e1, 1 / sqrt(1 - half * half)};
    for (size_t i = 0; i < count; i++)
        x[i] = in[i];
    for (int i = 0; i < w; i++)
        line(&f, h, 1, &x[i * h], &wrong[i * h], &sum[i * h], &off[i * h]);
    for (int j = 0; j < h; j++)
        line(&f, w, h, &sum[j], &off[j], &x[j], &wrong[j]);
    for (size_t i = 0; i < count; i++)
        out[i] = wrong[i] + fabs(x[i]);
    free(x);
    free(wrong);
    free(sum);
    free(off);
}
