/* Row by row of the lower triangle: the row times beta, then the two products column by column of A and B. */
void polybench_syr2k(int n, int m, double alpha, double beta, double *C, const double *A, const double *B)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++)
            C[i * n + j] *= beta;
        for (int k = 0; k < m; k++)
            for (int j = 0; j <= i; j++)
                C[i * n + j] += A[j * m + k] * alpha * B[i * m + k] + B[j * m + k] * alpha * A[i * m + k];
    }
}
