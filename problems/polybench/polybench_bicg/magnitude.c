#include <math.h>

/* The terms of each element without signs: a sum of n products for s and of m products for q, in any order, is off by
   some of sqrt(m + n) roundings of this. */
void polybench_bicg_magnitude(int m, int n, const double *A, const double *p, const double *r, double *s, double *q)
{
    for (int j = 0; j < m; j++)
        s[j] = 0;
    for (int i = 0; i < n; i++) {
        q[i] = 0;
        for (int j = 0; j < m; j++) {
            s[j] += fabs(r[i] * A[i * m + j]);
            q[i] += fabs(A[i * m + j] * p[j]);
        }
    }
}
