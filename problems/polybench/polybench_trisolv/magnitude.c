#include <math.h>
#include <stdlib.h>

/* Row i subtracts at most i products from b_i. Each step is off by one rounding of its result, which is at most |b_i|
   and the products without signs; with errors of either sign the root of i takes the place of i, and the quotient adds
   one. So x is the exact solution for a right-hand side that is off by some of sqrt(n) roundings of v = |b| + |L|·|x|
   without the diagonal, and |L^-1|·v bounds the error of x. The comparison matrix of L has the negated sizes of the
   elements below the diagonal, and its inverse is no smaller than |L^-1|. */
void polybench_trisolv_magnitude(int n, const double *L, const double *b, double *x)
{
    double *solution = malloc(sizeof *solution * n);
    if (!solution)
        abort();
    for (int i = 0; i < n; i++) {
        double sum = b[i], size = fabs(b[i]), brought = 0;
        for (int j = 0; j < i; j++) {
            sum -= L[i * n + j] * solution[j];
            size += fabs(L[i * n + j] * solution[j]);
            brought += fabs(L[i * n + j]) * x[j];
        }
        solution[i] = sum / L[i * n + i];
        x[i] = (size + brought) / fabs(L[i * n + i]);
    }
    free(solution);
}
