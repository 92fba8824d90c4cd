/* The baseline: both products in tiles of 4x8, and plain loops for what they leave. It is correct for every size; it
   must never change, or old numbers lose their meaning. */
#include <stdlib.h>

typedef double vec __attribute__((vector_size(32), aligned(8)));

/* The rows from `top` and columns from `left` of beta·Z + alpha·X·Y, which goes to Z. */
static void rest(int m, int n, int k, double alpha, double beta, int top, int left, const double *X, const double *Y,
                 double *Z)
{
    for (int i = top; i < m; i++)
        for (int j = left; j < n; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += X[i * k + l] * Y[l * n + j];
            Z[i * n + j] = beta * Z[i * n + j] + alpha * sum;
        }
}

static void product(int m, int n, int k, double alpha, double beta, const double *X, const double *Y, double *Z)
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
                z[0] = beta * z[0] + alpha * s[r][0];
                z[1] = beta * z[1] + alpha * s[r][1];
            }
        }
    rest(high, n, k, alpha, beta, 0, wide, X, Y, Z);
    rest(m, n, k, alpha, beta, high, 0, X, Y, Z);
}

void polybench_2mm(int ni, int nj, int nk, int nl, double alpha, double beta, const double *A, const double *B,
                   const double *C, double *D)
{
    double *tmp = calloc((size_t)ni * nj, sizeof *tmp);
    if (!tmp)
        abort();
    product(ni, nj, nk, alpha, 0, A, B, tmp);
    product(ni, nl, nj, 1, beta, tmp, C, D);
    free(tmp);
}
