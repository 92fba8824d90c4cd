/* Row by row of the lower triangle: the row times beta, then the product column by column of A. */
void polybench_syrk(int n, int m, double alpha, double beta, double *C, const double *A)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++)
            C[i * n + j] *= beta;
        for (int k = 0; k < m; k++)
            for (int j = 0; j <= i; j++)
                C[i * n + j] += alpha * A[i * m + k] * A[j * m + k];
    }
}
