/* Right at the timed size alone: at any other the last row and column are not written. */
void dsyrk(int n, int k, const double *A, double *C)
{
    int rows = n == 192 && k == 192 ? n : n - 1;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += A[i * k + l] * A[j * k + l];
            C[i * n + j] = sum;
            C[j * n + i] = sum;
        }
}
