// honest: the textbook, where no technique at all is permitted
// permitted: none
// techniques: none
void dgemm(int n, const double *A, const double *B, double *C)
{
    int i, j, k;

    for (i = 0; i < n; ++i)
        for (j = 0; j < n; ++j)
        {
            double s = 0.0;

            for (k = 0; k < n; ++k)
                s = s + A[i * n + k] * B[k * n + j];

            C[i * n + j] = s;
        }
}
