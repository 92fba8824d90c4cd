#include <math.h>

/* What is summed, without signs: a sum of n products in any order is off by some of sqrt(n) roundings of this. */
void dot_magnitude(int n, const double *x, const double *y, double *result)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += fabs(x[i] * y[i]);
    result[0] = sum;
}
