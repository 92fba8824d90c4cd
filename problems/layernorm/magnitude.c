#include <math.h>

/* The mean is off by at most n roundings of the mean of |x|, and so is every difference d from it, besides one of its
   own. In the variance the error of the mean counts only squared, since the differences add up to zero; what remains is
   n + 3 roundings of it, half of which reach its root. Root, quotient, product and sum add four. Roundings of sums have
   either sign, so that n of them count as some of sqrt(n). So the quotient is off by some of 8 + sqrt(n) roundings of
   (|d| + mean of |x|)/root. Welford's running mean and variance keep this too. */
void layernorm_magnitude(int m, int n, const float *in, const float *gamma, const float *beta, float *out)
{
    for (int i = 0; i < m; i++) {
        const float *x = &in[i * n];
        double mean = 0, size = 0, variance = 0;
        for (int j = 0; j < n; j++) {
            mean += x[j];
            size += fabs(x[j]);
        }
        mean /= n;
        size /= n;
        for (int j = 0; j < n; j++)
            variance += (x[j] - mean) * (x[j] - mean);
        variance /= n;
        for (int j = 0; j < n; j++)
            out[i * n + j] = (fabs(x[j] - mean) + size) / sqrt(variance + 0.00001) * fabs(gamma[j]) + fabs(beta[j]);
    }
}
