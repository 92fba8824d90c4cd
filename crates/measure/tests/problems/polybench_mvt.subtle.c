/* Sums up in single precision what is added to x1. */
void polybench_mvt(int n, double *x1, double *x2, const double *y1, const double *y2, const double *A)
{
    for (int i = 0; i < n; i++) {
        float sum = 0;
        for (int j = 0; j < n; j++) {
            sum += A[i * n + j] * y1[j];
            x2[i] += A[j * n + i] * y2[j];
        }
        x1[i] += sum;
    }
}
