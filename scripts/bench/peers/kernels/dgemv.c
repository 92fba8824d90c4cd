/* tune {"parameters": {"VL": [2, 4, 8], "MR": [1, 2, 4, 8], "NA": [1, 2, 4]}, "restrictions": ["MR * NA <= 16"]} */
/* MR rows at once, each with NA vectors of VL partial sums. */
typedef double vec __attribute__((vector_size(8 * VL), aligned(8)));

void dgemv(int m, int n, const double *A, const double *x, double *y)
{
    int i = 0;
    for (; i + MR <= m; i += MR) {
        vec zero = {0};
        vec sums[MR][NA];
        for (int r = 0; r < MR; r++)
            for (int a = 0; a < NA; a++)
                sums[r][a] = zero;
        int j = 0;
        for (; j + NA * VL <= n; j += NA * VL)
            for (int a = 0; a < NA; a++) {
                vec v = *(const vec *)&x[j + a * VL];
                for (int r = 0; r < MR; r++)
                    sums[r][a] += *(const vec *)&A[(long)(i + r) * n + j + a * VL] * v;
            }
        for (int r = 0; r < MR; r++) {
            double sum = 0;
            for (int a = 0; a < NA; a++)
                for (int l = 0; l < VL; l++)
                    sum += sums[r][a][l];
            for (int q = j; q < n; q++)
                sum += A[(long)(i + r) * n + q] * x[q];
            y[i + r] = sum;
        }
    }
    for (; i < m; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum += A[(long)i * n + j] * x[j];
        y[i] = sum;
    }
}
