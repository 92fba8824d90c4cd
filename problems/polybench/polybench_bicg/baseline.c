/* The baseline: four rows at a time, four columns at a time; s is read and written once for them. It is correct for
   every size; it must never change, or old numbers lose their meaning. */
typedef double vec __attribute__((vector_size(32), aligned(8)));

static double total(vec v)
{
    return (v[0] + v[1]) + (v[2] + v[3]);
}

void polybench_bicg(int m, int n, const double *A, const double *p, const double *r, double *s, double *q)
{
    int high = n - n % 4, wide = m - m % 4;
    for (int j = 0; j < m; j++)
        s[j] = 0;
    for (int i = 0; i < high; i += 4) {
        const double *a0 = &A[i * m], *a1 = a0 + m, *a2 = a1 + m, *a3 = a2 + m;
        vec q0 = {0}, q1 = {0}, q2 = {0}, q3 = {0};
        for (int j = 0; j < wide; j += 4) {
            vec x0 = *(const vec *)&a0[j], x1 = *(const vec *)&a1[j];
            vec x2 = *(const vec *)&a2[j], x3 = *(const vec *)&a3[j], y = *(const vec *)&p[j];
            *(vec *)&s[j] += r[i] * x0 + r[i + 1] * x1 + r[i + 2] * x2 + r[i + 3] * x3;
            q0 += x0 * y;
            q1 += x1 * y;
            q2 += x2 * y;
            q3 += x3 * y;
        }
        double sum[4] = {total(q0), total(q1), total(q2), total(q3)};
        for (int j = wide; j < m; j++)
            for (int k = 0; k < 4; k++) {
                s[j] += r[i + k] * a0[k * m + j];
                sum[k] += a0[k * m + j] * p[j];
            }
        for (int k = 0; k < 4; k++)
            q[i + k] = sum[k];
    }
    for (int i = high; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < m; j++) {
            s[j] += r[i] * A[i * m + j];
            sum += A[i * m + j] * p[j];
        }
        q[i] = sum;
    }
}
