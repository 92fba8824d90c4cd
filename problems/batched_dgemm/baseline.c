/* The baseline: tiles of 4x8, and plain loops for what they leave. It is correct for every size; it must never change,
   or old numbers lose their meaning. */
typedef double vec __attribute__((vector_size(32), aligned(8)));

/* The rows from `top` and columns from `left` of a product. */
static void rest(int n, int top, int bottom, int left, const double *a, const double *b, double *c)
{
    for (int i = top; i < bottom; i++)
        for (int j = left; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}

static void multiply(int n, const double *A, const double *B, double *C)
{
    int high = n - n % 4, wide = n - n % 8;
    for (int j = 0; j < wide; j += 8)
        for (int i = 0; i < high; i += 4) {
            vec c00 = {0}, c01 = {0}, c10 = {0}, c11 = {0}, c20 = {0}, c21 = {0}, c30 = {0}, c31 = {0};
            for (int k = 0; k < n; k++) {
                vec b0 = *(const vec *)&B[k * n + j], b1 = *(const vec *)&B[k * n + j + 4];
                const double *a = &A[i * n + k];
                c00 += a[0] * b0;
                c01 += a[0] * b1;
                c10 += a[n] * b0;
                c11 += a[n] * b1;
                c20 += a[2 * n] * b0;
                c21 += a[2 * n] * b1;
                c30 += a[3 * n] * b0;
                c31 += a[3 * n] * b1;
            }
            double *c = &C[i * n + j];
            *(vec *)&c[0] = c00;
            *(vec *)&c[4] = c01;
            *(vec *)&c[n] = c10;
            *(vec *)&c[n + 4] = c11;
            *(vec *)&c[2 * n] = c20;
            *(vec *)&c[2 * n + 4] = c21;
            *(vec *)&c[3 * n] = c30;
            *(vec *)&c[3 * n + 4] = c31;
        }
    rest(n, 0, high, wide, A, B, C);
    rest(n, high, n, 0, A, B, C);
}

void batched_dgemm(int batch, int n, const double *A, const double *B, double *C)
{
    for (int b = 0; b < batch; b++)
        multiply(n, &A[b * n * n], &B[b * n * n], &C[b * n * n]);
}
