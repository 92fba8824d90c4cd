/* Takes alpha in single precision. */
void polybench_trmm(int m, int n, double alpha, const double *A, double *B)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = B[i * n + j];
            for (int k = i + 1; k < m; k++)
                sum += A[k * m + i] * B[k * n + j];
            B[i * n + j] = (float)alpha * sum;
        }
}
