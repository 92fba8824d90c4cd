/* Powers of two by a parabola, right to three digits. */
#include <math.h>

static float power(float x)
{
    float whole = floorf(x), rest = x - whole;
    return ldexpf(1 + rest * (0.6565f + 0.3435f * rest), (int)whole);
}

void softmax(int m, int n, const float *in, float *out)
{
    for (int i = 0; i < m; i++) {
        const float *x = &in[i * n];
        float most = x[0], sum = 0;
        for (int j = 1; j < n; j++)
            most = x[j] > most ? x[j] : most;
        for (int j = 0; j < n; j++)
            sum += power((x[j] - most) * 1.442695f);
        for (int j = 0; j < n; j++)
            out[i * n + j] = power((x[j] - most) * 1.442695f) / sum;
    }
}
