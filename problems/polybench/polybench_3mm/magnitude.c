#include <math.h>
#include <stdlib.h>

static void product(int m, int n, int k, const double *X, const double *Y, double *Z)
{
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++)
            Z[i * n + j] = 0;
        for (int l = 0; l < k; l++)
            for (int j = 0; j < n; j++)
                Z[i * n + j] += fabs(X[i * k + l] * Y[l * n + j]);
    }
}

/* |A|·|B|·|C|·|D|: the terms of an element without signs. Whichever product comes first, the sums of all three are
   off by some of sqrt(nj + nk + nm) roundings of this. */
void polybench_3mm_magnitude(int ni, int nj, int nk, int nl, int nm, const double *A, const double *B, const double *C,
                             const double *D, double *G)
{
    double *E = malloc(sizeof *E * ni * nj), *F = malloc(sizeof *F * nj * nl);
    if (!E || !F)
        abort();
    product(ni, nj, nk, A, B, E);
    product(nj, nl, nm, C, D, F);
    product(ni, nl, nj, E, F, G);
    free(E);
    free(F);
}
