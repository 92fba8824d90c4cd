/* The baseline: A is updated and multiplied by y row by row, and read once more for w. It is correct for every size; it
   must never change, or old numbers lose their meaning. */
typedef double vec __attribute__((vector_size(32), aligned(8)));

void polybench_gemver(int n, double alpha, double beta, double *A, const double *u1, const double *v1, const double *u2,
                      const double *v2, double *w, double *x, const double *y, const double *z)
{
    int whole = n - n % 4;
    for (int i = 0; i < n; i++) {
        double f1 = u1[i], f2 = u2[i], g = beta * y[i];
        for (int j = 0; j < whole; j += 4) {
            vec *a = (vec *)&A[i * n + j];
            *a = *a + f1 * *(const vec *)&v1[j] + f2 * *(const vec *)&v2[j];
            *(vec *)&x[j] += g * *a;
        }
        for (int j = whole; j < n; j++) {
            A[i * n + j] = A[i * n + j] + f1 * v1[j] + f2 * v2[j];
            x[j] += g * A[i * n + j];
        }
    }
    for (int j = 0; j < n; j++)
        x[j] += z[j];
    for (int i = 0; i < n; i++) {
        vec s0 = {0}, s1 = {0};
        int j = 0;
        for (; j + 8 <= n; j += 8) {
            s0 += *(const vec *)&A[i * n + j] * *(const vec *)&x[j];
            s1 += *(const vec *)&A[i * n + j + 4] * *(const vec *)&x[j + 4];
        }
        s0 += s1;
        double sum = (s0[0] + s0[1]) + (s0[2] + s0[3]);
        for (; j < n; j++)
            sum += A[i * n + j] * x[j];
        w[i] += alpha * sum;
    }
}
