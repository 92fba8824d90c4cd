#include <math.h>
#include <stdlib.h>

/* In any order, the computed factor is the exact one of a matrix A + E with |E| <= (n + 1)·u·|L|·|L|^T. From (L +
   D)·(L + D)^T = A + E follows, up to squares of roundings, L^-1·D + (L^-1·D)^T = L^-1·E·L^-T =: X; L^-1·D is lower
   triangular, so it is the lower half of X, which has half of X's diagonal. Hence |D| <= (n +
   1)·u·|L|·half(|L^-1|·|L|·|L|^T·|L^-T|), of which the part behind u stands here. With errors of either sign the
   root of n + 1 takes the place of n + 1. Above the diagonal nothing is computed. */
void polybench_cholesky_magnitude(int n, double *A)
{
    size_t count = (size_t)n * n;
    double *inverse = calloc(count, sizeof *inverse), *x = calloc(count, sizeof *x), *y = calloc(count, sizeof *y);
    double *factor = calloc(count, sizeof *factor);
    if (!inverse || !x || !y || !factor)
        abort();
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = A[i * n + j];
            for (int k = 0; k < j; k++)
                sum -= factor[i * n + k] * factor[j * n + k];
            factor[i * n + j] = i == j ? sqrt(sum) : sum / factor[j * n + j];
        }
    for (int i = 0; i < n; i++) {
        double *row = &inverse[i * n];
        for (int k = 0; k < i; k++)
            for (int j = 0; j <= k; j++)
                row[j] -= factor[i * n + k] * inverse[k * n + j];
        row[i] = 1;
        for (int j = 0; j <= i; j++)
            row[j] /= factor[i * n + i];
    }
    for (size_t i = 0; i < count; i++) {
        factor[i] = fabs(factor[i]);
        inverse[i] = fabs(inverse[i]);
    }
    /* y = |L^-1|·|L|, lower triangular; then X = y·y^T, and half of it in x. */
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= i; k++)
            for (int j = 0; j <= k; j++)
                y[i * n + j] += inverse[i * n + k] * factor[k * n + j];
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            for (int k = 0; k <= j; k++)
                x[i * n + j] += y[i * n + k] * y[j * n + k];
            if (i == j)
                x[i * n + j] /= 2;
        }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            A[i * n + j] = 0;
        for (int k = 0; k <= i; k++)
            for (int j = 0; j <= k; j++)
                A[i * n + j] += factor[i * n + k] * x[k * n + j];
    }
    free(inverse);
    free(x);
    free(y);
    free(factor);
}
