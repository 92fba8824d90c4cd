#include <math.h>
#include <stdlib.h>

/* In each step an element is rounded once or twice, and with errors of either sign the n steps add up to some of
   sqrt(n) roundings of the largest element. The matrix is near the identity (its off-diagonal elements are those of
   r), so that a step hardly enlarges the errors of the steps before it, and they reach every element. A sum of k
   products that r[k] is added to is off by some of sqrt(k) roundings of |r[k]| and of the products without signs. So
   the largest element and the largest such sum bound the errors of all elements; other methods, which do not order
   the errors like this, keep that as well. */
void polybench_durbin_magnitude(int n, const double *r, double *y)
{
    double *z = malloc(sizeof *z * n);
    if (!z)
        abort();
    double alpha = -r[0], beta = 1, most = fabs(r[0]);
    y[0] = -r[0];
    for (int k = 1; k < n; k++) {
        beta = (1 - alpha * alpha) * beta;
        double sum = r[k], size = fabs(r[k]);
        for (int i = 0; i < k; i++) {
            sum += r[k - i - 1] * y[i];
            size += fabs(r[k - i - 1] * y[i]);
        }
        alpha = -sum / beta;
        for (int i = 0; i < k; i++) {
            z[i] = y[i] + alpha * y[k - i - 1];
            most = fmax(most, fabs(z[i]));
        }
        for (int i = 0; i < k; i++)
            y[i] = z[i];
        y[k] = alpha;
        most = fmax(most, size / sqrt(k + 1));
        most = fmax(most, fabs(alpha));
    }
    for (int i = 0; i < n; i++)
        y[i] = most;
    free(z);
}
