#include <math.h>
#include <stdlib.h>

/* The terms of an element without signs: |beta·D| and |alpha|·|A|·|B|·|C|. Whichever product comes first, its sums
   and those of the second one are off by some of sqrt(nj + nk) roundings of this; alpha, beta and the last sum add a
   few. */
void polybench_2mm_magnitude(int ni, int nj, int nk, int nl, double alpha, double beta, const double *A,
                             const double *B, const double *C, double *D)
{
    double *tmp = calloc((size_t)ni * nj, sizeof *tmp);
    if (!tmp)
        abort();
    for (int i = 0; i < ni; i++) {
        for (int k = 0; k < nk; k++)
            for (int j = 0; j < nj; j++)
                tmp[i * nj + j] += fabs(alpha * A[i * nk + k] * B[k * nj + j]);
        for (int j = 0; j < nl; j++)
            D[i * nl + j] = fabs(beta * D[i * nl + j]);
        for (int k = 0; k < nj; k++)
            for (int j = 0; j < nl; j++)
                D[i * nl + j] += tmp[i * nj + k] * fabs(C[k * nl + j]);
    }
    free(tmp);
}
