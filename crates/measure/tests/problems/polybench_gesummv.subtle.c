/* Takes alpha in single precision. */
void polybench_gesummv(int n, double alpha, double beta, const double *A, const double *B, const double *x, double *y)
{
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum += ((float)alpha * A[i * n + j] + beta * B[i * n + j]) * x[j];
        y[i] = sum;
    }
}
