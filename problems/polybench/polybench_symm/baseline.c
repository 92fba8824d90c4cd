/* The baseline: the matrix is written out with both triangles, and multiplied in tiles of 4x8. It is correct for every
   size; it must never change, or old numbers lose their meaning. */
#include <stdlib.h>

typedef double vec __attribute__((vector_size(32), aligned(8)));

/* The rows from `top` and columns from `left`, one sum for each element. */
static void rest(int rows, int m, int n, double alpha, double beta, int top, int left, const double *S, const double *B,
                 double *C)
{
    for (int i = top; i < rows; i++)
        for (int j = left; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < m; k++)
                sum += S[i * m + k] * B[k * n + j];
            C[i * n + j] = beta * C[i * n + j] + alpha * sum;
        }
}

void polybench_symm(int m, int n, double alpha, double beta, double *C, const double *A, const double *B)
{
    int high = m - m % 4, wide = n - n % 8;
    double *S = malloc(sizeof *S * m * m);
    if (!S)
        abort();
    for (int i = 0; i < m; i++)
        for (int k = 0; k <= i; k++)
            S[i * m + k] = S[k * m + i] = A[i * m + k];
    for (int j = 0; j < wide; j += 8)
        for (int i = 0; i < high; i += 4) {
            vec s[4][2] = {{{0}}};
            for (int k = 0; k < m; k++) {
                vec b0 = *(const vec *)&B[k * n + j], b1 = *(const vec *)&B[k * n + j + 4];
                for (int r = 0; r < 4; r++) {
                    s[r][0] += S[(i + r) * m + k] * b0;
                    s[r][1] += S[(i + r) * m + k] * b1;
                }
            }
            for (int r = 0; r < 4; r++) {
                vec *c = (vec *)&C[(i + r) * n + j];
                c[0] = beta * c[0] + alpha * s[r][0];
                c[1] = beta * c[1] + alpha * s[r][1];
            }
        }
    rest(high, m, n, alpha, beta, 0, wide, S, B, C);
    rest(m, m, n, alpha, beta, high, 0, S, B, C);
    free(S);
}
