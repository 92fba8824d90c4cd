/* The baseline: four rows at a time, eight columns at a time. It is correct for every size; it must never change, or
   old numbers lose their meaning. */
typedef double vec __attribute__((vector_size(32), aligned(8)));

static double total(vec v)
{
    return (v[0] + v[1]) + (v[2] + v[3]);
}

void dgemv(int m, int n, const double *A, const double *x, double *y)
{
    int whole = n - n % 8;
    for (int i = 0; i < m; i += 4) {
        /* Rows that are not there are computed from others and not stored. */
        int high = m - i < 4 ? m - i : 4;
        const double *a0 = &A[i * n];
        const double *a1 = high > 1 ? a0 + n : a0;
        const double *a2 = high > 2 ? a1 + n : a1;
        const double *a3 = high > 3 ? a2 + n : a2;
        vec s00 = {0}, s01 = {0}, s10 = {0}, s11 = {0}, s20 = {0}, s21 = {0}, s30 = {0}, s31 = {0};
        for (int j = 0; j < whole; j += 8) {
            vec x0 = *(const vec *)&x[j], x1 = *(const vec *)&x[j + 4];
            s00 += *(const vec *)&a0[j] * x0;
            s01 += *(const vec *)&a0[j + 4] * x1;
            s10 += *(const vec *)&a1[j] * x0;
            s11 += *(const vec *)&a1[j + 4] * x1;
            s20 += *(const vec *)&a2[j] * x0;
            s21 += *(const vec *)&a2[j + 4] * x1;
            s30 += *(const vec *)&a3[j] * x0;
            s31 += *(const vec *)&a3[j + 4] * x1;
        }
        double sum[4] = {total(s00 + s01), total(s10 + s11), total(s20 + s21), total(s30 + s31)};
        for (int j = whole; j < n; j++) {
            sum[0] += a0[j] * x[j];
            sum[1] += a1[j] * x[j];
            sum[2] += a2[j] * x[j];
            sum[3] += a3[j] * x[j];
        }
        for (int r = 0; r < high; r++)
            y[i + r] = sum[r];
    }
}
