#include <math.h>
#include <stdlib.h>

/* In any order, the computed factors are the exact ones of a matrix A + E with |E| <= n·u·|L|·|U|. From
   (L + D)·(U + F) = A + E follows, up to squares of roundings, L^-1·D + F·U^-1 = L^-1·E·U^-1 =: X; the first summand is
   strictly lower triangular, the second upper triangular, so each is its part of X. Hence
   |D| <= n·u·|L|·lower(|L^-1|·|L|·|U|·|U^-1|) and |F| <= n·u·upper(the same)·|U|, of which the part behind u
   stands here. With errors of either sign the root of n takes the place of n. */
void lu_magnitude(int n, const double *A, double *LU)
{
    size_t count = (size_t)n * n;
    double *lower = calloc(count, sizeof *lower), *upper = calloc(count, sizeof *upper);
    double *left = calloc(count, sizeof *left), *right = calloc(count, sizeof *right);
    double *p = calloc(count, sizeof *p), *q = calloc(count, sizeof *q), *x = calloc(count, sizeof *x);
    if (!lower || !upper || !left || !right || !p || !q || !x)
        abort();
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            double sum = A[i * n + j];
            for (int k = 0; k < i && k < j; k++)
                sum -= lower[i * n + k] * upper[k * n + j];
            if (i > j)
                lower[i * n + j] = sum / upper[j * n + j];
            else
                upper[i * n + j] = sum;
        }
        lower[i * n + i] = 1;
    }
    /* Their inverses: left·L = I, U·right = I. */
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = i == j;
            for (int k = j; k < i; k++)
                sum -= lower[i * n + k] * left[k * n + j];
            left[i * n + j] = sum;
        }
    for (int i = n - 1; i >= 0; i--)
        for (int j = i; j < n; j++) {
            double sum = i == j;
            for (int k = i + 1; k <= j; k++)
                sum -= upper[i * n + k] * right[k * n + j];
            right[i * n + j] = sum / upper[i * n + i];
        }
    for (size_t i = 0; i < count; i++) {
        lower[i] = fabs(lower[i]);
        upper[i] = fabs(upper[i]);
        left[i] = fabs(left[i]);
        right[i] = fabs(right[i]);
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            for (int k = j; k <= i; k++)
                p[i * n + j] += left[i * n + k] * lower[k * n + j];
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++)
            for (int k = i; k <= j; k++)
                q[i * n + j] += upper[i * n + k] * right[k * n + j];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k <= i && k <= j; k++)
                x[i * n + j] += p[i * n + k] * q[k * n + j];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            if (i > j)
                for (int k = j + 1; k <= i; k++)
                    sum += lower[i * n + k] * x[k * n + j];
            else
                for (int k = i; k <= j; k++)
                    sum += x[i * n + k] * upper[k * n + j];
            LU[i * n + j] = sum;
        }
    free(lower);
    free(upper);
    free(left);
    free(right);
    free(p);
    free(q);
    free(x);
}
