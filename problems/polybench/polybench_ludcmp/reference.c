/* The factors of A row by row, then forward substitution into x, then backward substitution in place. */
void polybench_ludcmp(int n, double *A, const double *b, double *x)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
            double sum = A[i * n + j];
            for (int k = 0; k < j; k++)
                sum -= A[i * n + k] * A[k * n + j];
            A[i * n + j] = sum / A[j * n + j];
        }
        for (int j = i; j < n; j++) {
            double sum = A[i * n + j];
            for (int k = 0; k < i; k++)
                sum -= A[i * n + k] * A[k * n + j];
            A[i * n + j] = sum;
        }
    }
    for (int i = 0; i < n; i++) {
        double sum = b[i];
        for (int j = 0; j < i; j++)
            sum -= A[i * n + j] * x[j];
        x[i] = sum;
    }
    for (int i = n - 1; i >= 0; i--) {
        double sum = x[i];
        for (int j = i + 1; j < n; j++)
            sum -= A[i * n + j] * x[j];
        x[i] = sum / A[i * n + i];
    }
}
