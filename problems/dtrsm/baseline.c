/* The baseline: four rows of eight right-hand sides at a time, and plain loops for what they leave. It is correct for
   every size; it must never change, or old numbers lose their meaning. */
typedef double vec __attribute__((vector_size(32), aligned(8)));

/* Rows `top` to `bottom` of the columns `left` to `right`, where the rows above are known. */
static void rest(int n, int m, int top, int bottom, int left, int right, const double *L, const double *B, double *X)
{
    for (int i = top; i < bottom; i++) {
        double *restrict x = &X[i * m];
        for (int j = left; j < right; j++)
            x[j] = B[i * m + j];
        for (int k = 0; k < i; k++) {
            const double *restrict y = &X[k * m];
            for (int j = left; j < right; j++)
                x[j] -= L[i * n + k] * y[j];
        }
        for (int j = left; j < right; j++)
            x[j] /= L[i * n + i];
    }
}

void dtrsm(int n, int m, const double *L, const double *B, double *X)
{
    int high = n - n % 4, wide = m - m % 8;
    for (int j = 0; j < wide; j += 8) {
        for (int i = 0; i < high; i += 4) {
            const double *l = &L[i * n], *b = &B[i * m + j];
            double *x = &X[i * m + j];
            vec x00 = *(const vec *)&b[0], x01 = *(const vec *)&b[4];
            vec x10 = *(const vec *)&b[m], x11 = *(const vec *)&b[m + 4];
            vec x20 = *(const vec *)&b[2 * m], x21 = *(const vec *)&b[2 * m + 4];
            vec x30 = *(const vec *)&b[3 * m], x31 = *(const vec *)&b[3 * m + 4];
            for (int k = 0; k < i; k++) {
                vec y0 = *(const vec *)&X[k * m + j], y1 = *(const vec *)&X[k * m + j + 4];
                x00 -= l[k] * y0;
                x01 -= l[k] * y1;
                x10 -= l[n + k] * y0;
                x11 -= l[n + k] * y1;
                x20 -= l[2 * n + k] * y0;
                x21 -= l[2 * n + k] * y1;
                x30 -= l[3 * n + k] * y0;
                x31 -= l[3 * n + k] * y1;
            }
            const double *d = &l[i];
            x00 /= d[0];
            x01 /= d[0];
            x10 = (x10 - d[n] * x00) / d[n + 1];
            x11 = (x11 - d[n] * x01) / d[n + 1];
            x20 = (x20 - d[2 * n] * x00 - d[2 * n + 1] * x10) / d[2 * n + 2];
            x21 = (x21 - d[2 * n] * x01 - d[2 * n + 1] * x11) / d[2 * n + 2];
            x30 = (x30 - d[3 * n] * x00 - d[3 * n + 1] * x10 - d[3 * n + 2] * x20) / d[3 * n + 3];
            x31 = (x31 - d[3 * n] * x01 - d[3 * n + 1] * x11 - d[3 * n + 2] * x21) / d[3 * n + 3];
            *(vec *)&x[0] = x00;
            *(vec *)&x[4] = x01;
            *(vec *)&x[m] = x10;
            *(vec *)&x[m + 4] = x11;
            *(vec *)&x[2 * m] = x20;
            *(vec *)&x[2 * m + 4] = x21;
            *(vec *)&x[3 * m] = x30;
            *(vec *)&x[3 * m + 4] = x31;
        }
    }
    rest(n, m, high, n, 0, wide, L, B, X);
    rest(n, m, 0, n, wide, m, L, B, X);
}
