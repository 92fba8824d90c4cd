/* One product after the other, one sum for each element; the second one goes down the columns of A. */
void polybench_mvt(int n, double *x1, double *x2, const double *y1, const double *y2, const double *A)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            x1[i] += A[i * n + j] * y1[j];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            x2[i] += A[j * n + i] * y2[j];
}
