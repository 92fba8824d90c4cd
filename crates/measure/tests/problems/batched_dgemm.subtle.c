/* Rounds every product to single precision and sums in double. */
void batched_dgemm(int batch, int n, const double *A, const double *B, double *C)
{
    for (int b = 0; b < batch; b++) {
        const double *a = &A[b * n * n], *x = &B[b * n * n];
        double *c = &C[b * n * n];
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                double sum = 0;
                for (int k = 0; k < n; k++)
                    sum += (float)(a[i * n + k] * x[k * n + j]);
                c[i * n + j] = sum;
            }
    }
}
