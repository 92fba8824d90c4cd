/* Multiplies by reciprocals of single precision where it should divide. */
void dtrsm(int n, int m, const double *L, const double *B, double *X)
{
    for (int i = 0; i < n; i++) {
        float reciprocal = 1 / (float)L[i * n + i];
        for (int j = 0; j < m; j++) {
            double sum = B[i * m + j];
            for (int k = 0; k < i; k++)
                sum -= L[i * n + k] * X[k * m + j];
            X[i * m + j] = sum * reciprocal;
        }
    }
}
