#include <math.h>
#include <stdlib.h>

/* Substitution gives the exact solution of a system whose matrix is off by at most n roundings of each element of L:
   (L + E)(X + D) = B with |E| <= n·u·|L|. So D = -L^-1·E·X up to squares of roundings, and |D| <= n·u·|L^-1|·|L|·|X|,
   of which the part behind u stands here; with errors of either sign the root of n takes the place of n. Solving with inverted diagonal blocks stays within it as well, L being dominated by its
   diagonal. */
void dtrsm_magnitude(int n, int m, const double *L, const double *B, double *X)
{
    double *x = malloc(sizeof *x * n * m), *product = malloc(sizeof *product * n * m);
    double *inverse = calloc((size_t)n * n, sizeof *inverse);
    if (!x || !product || !inverse)
        abort();
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            double sum = B[i * m + j];
            for (int k = 0; k < i; k++)
                sum -= L[i * n + k] * x[k * m + j];
            x[i * m + j] = sum / L[i * n + i];
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = i == j;
            for (int k = j; k < i; k++)
                sum -= L[i * n + k] * inverse[k * n + j];
            inverse[i * n + j] = sum / L[i * n + i];
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            double sum = 0;
            for (int k = 0; k <= i; k++)
                sum += fabs(L[i * n + k] * x[k * m + j]);
            product[i * m + j] = sum;
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            double sum = 0;
            for (int k = 0; k <= i; k++)
                sum += fabs(inverse[i * n + k]) * product[k * m + j];
            X[i * m + j] = sum;
        }
    free(x);
    free(product);
    free(inverse);
}
