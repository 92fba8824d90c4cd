/* Every element by itself: the scalar product of two rows of A. */
void dsyrk(int n, int k, const double *A, double *C)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += A[i * k + l] * A[j * k + l];
            C[i * n + j] = sum;
        }
}
