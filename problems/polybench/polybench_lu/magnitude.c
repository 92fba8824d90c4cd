#include <math.h>
#include <stdlib.h>

/* In any order, the computed factors are the exact ones of a matrix A + E with |E| <= n·u·|L|·|U|. From
   (L + D)·(U + F) = A + E follows, up to squares of roundings, L^-1·D + F·U^-1 = L^-1·E·U^-1 =: X; the first summand is
   strictly lower triangular, the second upper triangular, so each is its part of X. Hence
   |D| <= n·u·|L|·lower(|L^-1|·|L|·|U|·|U^-1|) and |F| <= n·u·upper(the same)·|U|, of which the part behind u
   stands here. With errors of either sign the root of n takes the place of n. */
void polybench_lu_magnitude(int n, double *A)
{
    size_t count = (size_t)n * n;
    double *left = calloc(count, sizeof *left), *right = calloc(count, sizeof *right);
    double *p = calloc(count, sizeof *p), *q = calloc(count, sizeof *q), *x = calloc(count, sizeof *x);
    if (!left || !right || !p || !q || !x)
        abort();
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            double factor = A[i * n + k] /= A[k * n + k];
            for (int j = k + 1; j < n; j++)
                A[i * n + j] -= factor * A[k * n + j];
        }
    /* The inverses of the factors: left·L = I, U·right = I. */
    for (int i = 0; i < n; i++) {
        left[i * n + i] = 1;
        for (int k = 0; k < i; k++)
            for (int j = 0; j <= k; j++)
                left[i * n + j] -= A[i * n + k] * left[k * n + j];
    }
    for (int i = n - 1; i >= 0; i--) {
        double *row = &right[i * n];
        row[i] = 1;
        for (int k = i + 1; k < n; k++)
            for (int j = k; j < n; j++)
                row[j] -= A[i * n + k] * right[k * n + j];
        for (int j = i; j < n; j++)
            row[j] /= A[i * n + i];
    }
    for (size_t i = 0; i < count; i++) {
        A[i] = fabs(A[i]);
        left[i] = fabs(left[i]);
        right[i] = fabs(right[i]);
    }
    /* p = |L^-1|·|L|, lower triangular; q = |U|·|U^-1|, upper triangular; x = p·q. */
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= i; k++) {
            p[i * n + k] += left[i * n + k];
            for (int j = 0; j < k; j++)
                p[i * n + j] += left[i * n + k] * A[k * n + j];
        }
    for (int i = 0; i < n; i++)
        for (int k = i; k < n; k++)
            for (int j = k; j < n; j++)
                q[i * n + j] += A[i * n + k] * right[k * n + j];
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= i; k++)
            for (int j = k; j < n; j++)
                x[i * n + j] += p[i * n + k] * q[k * n + j];
    /* |L|·lower(x) and upper(x)·|U|. */
    for (int i = 0; i < n; i++) {
        double *row = &left[i * n];
        for (int j = 0; j < n; j++)
            row[j] = j < i ? x[i * n + j] : 0;
        for (int k = 0; k < i; k++)
            for (int j = 0; j < k; j++)
                row[j] += A[i * n + k] * x[k * n + j];
        for (int k = i; k < n; k++)
            for (int j = k; j < n; j++)
                row[j] += x[i * n + k] * A[k * n + j];
    }
    for (size_t i = 0; i < count; i++)
        A[i] = left[i];
    free(left);
    free(right);
    free(p);
    free(q);
    free(x);
}
