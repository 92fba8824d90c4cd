/* Squares of the diagonal are rounded to single precision. */
void dsyrk(int n, int k, const double *A, double *C)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++) {
                double a = A[i * k + l], b = A[j * k + l];
                sum += i == j ? (float)(a * a) : a * b;
            }
            C[i * n + j] = sum;
            C[j * n + i] = sum;
        }
}
