/* Moves the numbers by way of single precision. */
void transpose(int m, int n, const double *A, double *B)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            B[j * m + i] = (float)A[i * n + j];
}
