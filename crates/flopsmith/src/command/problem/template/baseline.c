/* The baseline, with which timed calls take turns: faster than the reference, and never changed, or old numbers lose
   their meaning. This file may be left out; the reference is then the baseline. */
void NAME(int m, int n, const double *A, const double *x, double *y)
{
    for (int i = 0; i < m; i++) {
        double sum[8] = {0};
        int j = 0;
        for (; j + 8 <= n; j += 8)
            for (int k = 0; k < 8; k++)
                sum[k] += A[i * n + j + k] * x[j + k];
        double rest = 0;
        for (; j < n; j++)
            rest += A[i * n + j] * x[j];
        y[i] = ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7])) + rest;
    }
}
