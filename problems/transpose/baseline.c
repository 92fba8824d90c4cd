/* The baseline: blocks of 8x8, which are whole cache lines. It is correct for every size; it must never change, or old
   numbers lose their meaning. */
void transpose(int m, int n, const double *A, double *B)
{
    int high = m - m % 8, wide = n - n % 8;
    for (int i = 0; i < high; i += 8)
        for (int j = 0; j < wide; j += 8) {
            const double *a = &A[i * n + j];
            double *restrict b = &B[j * m + i];
            for (int s = 0; s < 8; s++)
                for (int r = 0; r < 8; r++)
                    b[s * m + r] = a[r * n + s];
        }
    for (int i = 0; i < m; i++)
        for (int j = i < high ? wide : 0; j < n; j++)
            B[j * m + i] = A[i * n + j];
}
