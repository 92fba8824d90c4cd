/* Both operands lose the last 13 bits of their fractions, as in the half-precision units of some processors. */
#include <string.h>

static float shorter(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0xffffe000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

void sgemm(int n, const float *A, const float *B, float *C)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            C[i * n + j] = 0;
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++)
                C[i * n + j] += shorter(A[i * n + k]) * shorter(B[k * n + j]);
    }
}
