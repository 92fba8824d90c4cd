/* Takes the diagonal of A in single precision. */
void polybench_symm(int m, int n, double alpha, double beta, double *C, const double *A, const double *B)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < m; k++)
                sum += (k < i ? A[i * m + k] : k > i ? A[k * m + i] : (float)A[i * m + i]) * B[k * n + j];
            C[i * n + j] = beta * C[i * n + j] + alpha * sum;
        }
}
