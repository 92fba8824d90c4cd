#include <math.h>

/* What is summed for an element, without signs: a sum of k*k products in any order is off by some of k roundings of
   this. */
void conv2d_magnitude(int h, int w, int k, const float *in, const float *weight, float *out)
{
    int row = w + k - 1;
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            double sum = 0;
            for (int p = 0; p < k; p++)
                for (int q = 0; q < k; q++)
                    sum += fabs((double)weight[p * k + q] * in[(i + p) * row + j + q]);
            out[i * w + j] = sum;
        }
}
