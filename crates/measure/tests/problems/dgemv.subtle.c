/* Sums in single precision. */
void dgemv(int m, int n, const double *A, const double *x, double *y)
{
    for (int i = 0; i < m; i++) {
        float sum = 0;
        for (int j = 0; j < n; j++)
            sum += (float)A[i * n + j] * (float)x[j];
        y[i] = sum;
    }
}
