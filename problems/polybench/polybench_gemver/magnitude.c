#include <math.h>

/* The terms of each element without signs, times the roundings that reach it. An element of A is the end of four. A sum
   of n products of it for x adds some of sqrt(n), beta and z a few; the sum for w adds as many again, which together is
   some of sqrt(2·n). */
void polybench_gemver_magnitude(int n, double alpha, double beta, double *A, const double *u1, const double *v1,
                                const double *u2, const double *v2, double *w, double *x, const double *y,
                                const double *z)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            A[i * n + j] = fabs(A[i * n + j]) + fabs(u1[i] * v1[j]) + fabs(u2[i] * v2[j]);
    for (int j = 0; j < n; j++)
        x[j] = fabs(x[j]) + fabs(z[j]);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            x[j] += fabs(beta) * A[i * n + j] * fabs(y[i]);
    for (int i = 0; i < n; i++) {
        double sum = fabs(w[i]);
        for (int j = 0; j < n; j++)
            sum += fabs(alpha) * A[i * n + j] * x[j];
        w[i] = sum * (8 + sqrt(2 * n));
    }
    for (int i = 0; i < n; i++) {
        x[i] *= 5 + sqrt(n);
        for (int j = 0; j < n; j++)
            A[i * n + j] *= 3;
    }
}
