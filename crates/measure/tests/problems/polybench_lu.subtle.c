/* Stores the multipliers in single precision. */
void polybench_lu(int n, double *A)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = A[i * n + j];
            for (int k = 0; k < i && k < j; k++)
                sum -= A[i * n + k] * A[k * n + j];
            A[i * n + j] = i > j ? (float)(sum / A[j * n + j]) : sum;
        }
}
