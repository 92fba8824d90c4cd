#include <math.h>

/* As it is defined, in double precision; the largest number of a row is taken off before exp sees it. */
void softmax(int m, int n, const float *in, float *out)
{
    for (int i = 0; i < m; i++) {
        const float *x = &in[i * n];
        double most = x[0], sum = 0;
        for (int j = 1; j < n; j++)
            if (x[j] > most)
                most = x[j];
        for (int j = 0; j < n; j++)
            sum += exp(x[j] - most);
        for (int j = 0; j < n; j++)
            out[i * n + j] = exp(x[j] - most) / sum;
    }
}
