#include <math.h>
#include <stdlib.h>

/* Row i has a difference of b_i and at most i products, each step off by one rounding of what it has come to, which
   is at most |b_i| and the products without signs; with errors of either sign the root of i takes the place of i.
   The quotient adds one. So x is the exact solution for a b that is off by some of sqrt(n) roundings of v = |b| +
   |L|·|x| less the diagonal, and |L^-1|·v bounds what x is off by. The comparison matrix of L, which has the
   elements below the diagonal with a minus before their sizes, has an inverse that is no smaller than |L^-1|. */
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
