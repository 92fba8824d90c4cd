/* The baseline: both products while A is read once, four rows at a time. It is correct for every size; it must never
   change, or old numbers lose their meaning. */
typedef double vec __attribute__((vector_size(32), aligned(8)));

static double total(vec v)
{
    return (v[0] + v[1]) + (v[2] + v[3]);
}

void polybench_mvt(int n, double *x1, double *x2, const double *y1, const double *y2, const double *A)
{
    int whole = n - n % 4;
    for (int i = 0; i < whole; i += 4) {
        const double *a0 = &A[i * n], *a1 = a0 + n, *a2 = a1 + n, *a3 = a2 + n;
        vec s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
        for (int j = 0; j < whole; j += 4) {
            vec b0 = *(const vec *)&a0[j], b1 = *(const vec *)&a1[j];
            vec b2 = *(const vec *)&a2[j], b3 = *(const vec *)&a3[j], y = *(const vec *)&y1[j];
            *(vec *)&x2[j] += y2[i] * b0 + y2[i + 1] * b1 + y2[i + 2] * b2 + y2[i + 3] * b3;
            s0 += b0 * y;
            s1 += b1 * y;
            s2 += b2 * y;
            s3 += b3 * y;
        }
        double sum[4] = {total(s0), total(s1), total(s2), total(s3)};
        for (int j = whole; j < n; j++)
            for (int k = 0; k < 4; k++) {
                x2[j] += y2[i + k] * a0[k * n + j];
                sum[k] += a0[k * n + j] * y1[j];
            }
        for (int k = 0; k < 4; k++)
            x1[i + k] += sum[k];
    }
    for (int i = whole; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++) {
            x2[j] += y2[i] * A[i * n + j];
            sum += A[i * n + j] * y1[j];
        }
        x1[i] += sum;
    }
}
