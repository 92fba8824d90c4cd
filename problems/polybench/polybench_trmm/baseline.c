/* The baseline: eight columns of B at a time; four rows of the result are summed up in registers. It is correct for
   every size; it must never change, or old numbers lose their meaning. */
typedef double vec __attribute__((vector_size(32), aligned(8)));

/* Rows `top` to `bottom` of the columns from `left`, where the rows below are still the old ones. */
static void rest(int m, int n, double alpha, int top, int bottom, int left, int right, const double *A, double *B)
{
    for (int i = top; i < bottom; i++)
        for (int j = left; j < right; j++) {
            double sum = B[i * n + j];
            for (int k = i + 1; k < m; k++)
                sum += A[k * m + i] * B[k * n + j];
            B[i * n + j] = alpha * sum;
        }
}

void polybench_trmm(int m, int n, double alpha, const double *A, double *B)
{
    int high = m - m % 4, wide = n - n % 8;
    for (int j = 0; j < wide; j += 8)
        for (int i = 0; i < high; i += 4) {
            vec sum[4][2];
            for (int r = 0; r < 4; r++)
                for (int h = 0; h < 2; h++) {
                    sum[r][h] = *(const vec *)&B[(i + r) * n + j + 4 * h];
                    for (int k = i + r + 1; k < i + 4; k++)
                        sum[r][h] += A[k * m + i + r] * *(const vec *)&B[k * n + j + 4 * h];
                }
            for (int k = i + 4; k < m; k++) {
                vec b0 = *(const vec *)&B[k * n + j], b1 = *(const vec *)&B[k * n + j + 4];
                const double *a = &A[k * m + i];
                for (int r = 0; r < 4; r++) {
                    sum[r][0] += a[r] * b0;
                    sum[r][1] += a[r] * b1;
                }
            }
            for (int r = 0; r < 4; r++)
                for (int h = 0; h < 2; h++)
                    *(vec *)&B[(i + r) * n + j + 4 * h] = alpha * sum[r][h];
        }
    rest(m, n, alpha, high, m, 0, wide, A, B);
    rest(m, n, alpha, 0, m, wide, n, A, B);
}
