/* The baseline: the three products in tiles of 4x8, and plain loops for what they leave. It is correct for every
   size; it must never change, or old numbers lose their meaning. */
#include <stdlib.h>

typedef double vec __attribute__((vector_size(32), aligned(8)));

/* The rows from `top` and columns from `left` of X·Y. */
static void rest(int m, int n, int k, int top, int left, const double *X, const double *Y, double *Z)
{
    for (int i = top; i < m; i++)
        for (int j = left; j < n; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += X[i * k + l] * Y[l * n + j];
            Z[i * n + j] = sum;
        }
}

static void product(int m, int n, int k, const double *X, const double *Y, double *Z)
{
    int high = m - m % 4, wide = n - n % 8;
    for (int j = 0; j < wide; j += 8)
        for (int i = 0; i < high; i += 4) {
            vec s[4][2] = {{{0}}};
            for (int l = 0; l < k; l++) {
                vec y0 = *(const vec *)&Y[l * n + j], y1 = *(const vec *)&Y[l * n + j + 4];
                for (int r = 0; r < 4; r++) {
                    s[r][0] += X[(i + r) * k + l] * y0;
                    s[r][1] += X[(i + r) * k + l] * y1;
                }
            }
            for (int r = 0; r < 4; r++) {
                vec *z = (vec *)&Z[(i + r) * n + j];
                z[0] = s[r][0];
                z[1] = s[r][1];
            }
        }
    rest(high, n, k, 0, wide, X, Y, Z);
    rest(m, n, k, high, 0, X, Y, Z);
}

void polybench_3mm(int ni, int nj, int nk, int nl, int nm, const double *A, const double *B, const double *C,
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
