/* Writes both triangles, as if the result were symmetric throughout. */
void polybench_syrk(int n, int m, double alpha, double beta, double *C, const double *A)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int k = 0; k < m; k++)
                sum += A[i * m + k] * A[j * m + k];
            C[i * n + j] = beta * C[i * n + j] + alpha * sum;
            C[j * n + i] = C[i * n + j];
        }
}
