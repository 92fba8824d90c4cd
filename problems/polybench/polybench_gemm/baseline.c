/* The baseline: tiles of 4x8, and plain loops for what they leave. It is correct for every size; it must never change,
   or old numbers lose their meaning. */
typedef double vec __attribute__((vector_size(32), aligned(8)));

/* The rows from `top` and columns from `left`, one sum for each element. */
static void rest(int ni, int nj, int nk, double alpha, double beta, int top, int left, const double *A, const double *B,
                 double *C)
{
    for (int i = top; i < ni; i++)
        for (int j = left; j < nj; j++) {
            double sum = 0;
            for (int k = 0; k < nk; k++)
                sum += A[i * nk + k] * B[k * nj + j];
            C[i * nj + j] = beta * C[i * nj + j] + alpha * sum;
        }
}

void polybench_gemm(int ni, int nj, int nk, double alpha, double beta, double *C, const double *A, const double *B)
{
    int high = ni - ni % 4, wide = nj - nj % 8;
    for (int j = 0; j < wide; j += 8)
        for (int i = 0; i < high; i += 4) {
            vec s[4][2] = {{{0}}};
            for (int k = 0; k < nk; k++) {
                vec b0 = *(const vec *)&B[k * nj + j], b1 = *(const vec *)&B[k * nj + j + 4];
                for (int r = 0; r < 4; r++) {
                    s[r][0] += A[(i + r) * nk + k] * b0;
                    s[r][1] += A[(i + r) * nk + k] * b1;
                }
            }
            for (int r = 0; r < 4; r++) {
                vec *c = (vec *)&C[(i + r) * nj + j];
                c[0] = beta * c[0] + alpha * s[r][0];
                c[1] = beta * c[1] + alpha * s[r][1];
            }
        }
    rest(high, nj, nk, alpha, beta, 0, wide, A, B, C);
    rest(ni, nj, nk, alpha, beta, high, 0, A, B, C);
}
