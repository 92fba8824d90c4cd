/* The baseline: four columns at a time are eliminated from the rest of the matrix; then two substitutions. It is
   correct for every size; it must never change, or old numbers lose their meaning. */
static void factor(int n, double *A)
{
    for (int k = 0; k < n; k += 4) {
        int end = n - k < 4 ? n : k + 4;
        for (int l = k; l < end; l++)
            for (int i = l + 1; i < n; i++) {
                double f = A[i * n + l] / A[l * n + l];
                A[i * n + l] = f;
                for (int j = l + 1; j < end; j++)
                    A[i * n + j] -= f * A[l * n + j];
            }
        for (int i = k + 1; i < end; i++)
            for (int l = k; l < i; l++) {
                double *restrict x = &A[i * n];
                const double *restrict y = &A[l * n];
                double f = x[l];
                for (int j = end; j < n; j++)
                    x[j] -= f * y[j];
            }
        /* When fewer than four columns were left, no row is. */
        for (int i = k + 4; i < n; i++) {
            double *restrict x = &A[i * n];
            const double *restrict y0 = &A[k * n], *restrict y1 = &A[(k + 1) * n];
            const double *restrict y2 = &A[(k + 2) * n], *restrict y3 = &A[(k + 3) * n];
            double f0 = x[k], f1 = x[k + 1], f2 = x[k + 2], f3 = x[k + 3];
            for (int j = k + 4; j < n; j++)
                x[j] -= f0 * y0[j] + f1 * y1[j] + f2 * y2[j] + f3 * y3[j];
        }
    }
}

void polybench_ludcmp(int n, double *A, const double *b, double *x)
{
    factor(n, A);
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
