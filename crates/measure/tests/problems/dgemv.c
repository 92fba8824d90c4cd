/* Right at the timed size alone: at any other the last row is not written. */
void dgemv(int m, int n, const double *A, const double *x, double *y)
{
    int rows = m == 768 && n == 768 ? m : m - 1;
    for (int i = 0; i < rows; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum += A[i * n + j] * x[j];
        y[i] = sum;
    }
}
