/* The baseline: two passes for mean and variance, sixteen sums at a time. It is correct for every size; it must never
   change, or old numbers lose their meaning. */
#include <math.h>

typedef float vec __attribute__((vector_size(32), aligned(4)));

static float total(vec v)
{
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

void layernorm(int m, int n, const float *in, const float *gamma, const float *beta, float *out)
{
    int whole = n - n % 16;
    for (int i = 0; i < m; i++) {
        const float *x = &in[i * n];
        float *restrict y = &out[i * n];
        vec s0 = {0}, s1 = {0};
        for (int j = 0; j < whole; j += 16) {
            s0 += *(const vec *)&x[j];
            s1 += *(const vec *)&x[j + 8];
        }
        float sum = total(s0 + s1);
        for (int j = whole; j < n; j++)
            sum += x[j];
        float mean = sum / n;

        vec q0 = {0}, q1 = {0};
        for (int j = 0; j < whole; j += 16) {
            vec d0 = *(const vec *)&x[j] - mean, d1 = *(const vec *)&x[j + 8] - mean;
            q0 += d0 * d0;
            q1 += d1 * d1;
        }
        float squares = total(q0 + q1);
        for (int j = whole; j < n; j++)
            squares += (x[j] - mean) * (x[j] - mean);
        float factor = 1 / sqrtf(squares / n + 0.00001f);

        for (int j = 0; j < n; j++)
            y[j] = (x[j] - mean) * factor * gamma[j] + beta[j];
    }
}
