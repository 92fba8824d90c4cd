/* tune {"parameters": {"VL": [2, 4, 8], "MR": [1, 2, 4, 8], "NR": [1, 2, 4], "KB": [64, 128, 256, 4096], "JB": [64, 128, 256, 4096]}, "restrictions": ["MR * NR <= 32", "NR * VL <= 32"]} */
/* Tiles of MR rows and NR vectors of VL numbers in registers; blocks of KB terms and JB columns. n is a multiple of 64. */
typedef double vec __attribute__((vector_size(8 * VL), aligned(8)));

void dgemm(int n, const double *A, const double *B, double *C)
{
    for (int i = 0; i < n * n; i++)
        C[i] = 0;
    for (int kk = 0; kk < n; kk += KB)
        for (int jj = 0; jj < n; jj += JB)
            for (int i = 0; i < n; i += MR)
                for (int j = jj; j < jj + JB && j < n; j += NR * VL) {
                    vec c[MR][NR];
                    for (int r = 0; r < MR; r++)
                        for (int s = 0; s < NR; s++)
                            c[r][s] = *(const vec *)&C[(i + r) * n + j + s * VL];
                    for (int k = kk; k < kk + KB && k < n; k++) {
                        vec b[NR];
                        for (int s = 0; s < NR; s++)
                            b[s] = *(const vec *)&B[k * n + j + s * VL];
                        for (int r = 0; r < MR; r++) {
                            double a = A[(i + r) * n + k];
                            for (int s = 0; s < NR; s++)
                                c[r][s] += a * b[s];
                        }
                    }
                    for (int r = 0; r < MR; r++)
                        for (int s = 0; s < NR; s++)
                            *(vec *)&C[(i + r) * n + j + s * VL] = c[r][s];
                }
}
