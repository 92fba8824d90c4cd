/* Rounds every other product to single precision. */
void polybench_syr2k(int n, int m, double alpha, double beta, double *C, const double *A, const double *B)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int k = 0; k < m; k++)
                sum += A[i * m + k] * B[j * m + k] + (float)(B[i * m + k] * A[j * m + k]);
            C[i * n + j] = beta * C[i * n + j] + alpha * sum;
        }
}
