/* The baseline: timed calls of a candidate are interleaved with calls of this kernel, and it is fast enough that this
   costs little. Reports give ratios to the plain reference, which is measured against this kernel once. It is correct
   for every multiple of 64; it must never change, or old numbers lose their meaning. */
typedef double vec __attribute__((vector_size(32), aligned(8)));

void dgemm(int n, const double *A, const double *B, double *C)
{
    for (int j = 0; j < n; j += 8)
        for (int i = 0; i < n; i += 4) {
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
}
