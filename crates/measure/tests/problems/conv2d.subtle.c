/* The weights lose the last 13 bits of their fractions. */
#include <string.h>

static float shorter(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0xffffe000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

void conv2d(int h, int w, int k, const float *in, const float *weight, float *out)
{
    int row = w + k - 1;
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            float sum = 0;
            for (int p = 0; p < k; p++)
                for (int q = 0; q < k; q++)
                    sum += shorter(weight[p * k + q]) * in[(i + p) * row + j + q];
            out[i * w + j] = sum;
        }
}
