/* Stores the multipliers in single precision. */
void lu(int n, const double *A, double *LU)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = A[i * n + j];
            for (int k = 0; k < i && k < j; k++)
                sum -= LU[i * n + k] * LU[k * n + j];
            LU[i * n + j] = i > j ? (float)(sum / LU[j * n + j]) : sum;
        }
}
