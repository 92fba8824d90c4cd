/* tune {"parameters": {"TI": [4, 8, 16, 32, 64, 128], "TJ": [4, 8, 16, 32, 64, 128], "ROWS_FIRST": [0, 1]}, "restrictions": []} */
/* Tiles of TI rows and TJ columns of A; ROWS_FIRST says which of the two the inner loop runs along. */
void transpose(int m, int n, const double *A, double *B)
{
    for (int ii = 0; ii < m; ii += TI)
        for (int jj = 0; jj < n; jj += TJ) {
            int last_i = ii + TI < m ? ii + TI : m, last_j = jj + TJ < n ? jj + TJ : n;
#if ROWS_FIRST
            for (int i = ii; i < last_i; i++)
                for (int j = jj; j < last_j; j++)
                    B[(long)j * m + i] = A[(long)i * n + j];
#else
            for (int j = jj; j < last_j; j++)
                for (int i = ii; i < last_i; i++)
                    B[(long)j * m + i] = A[(long)i * n + j];
#endif
        }
}
