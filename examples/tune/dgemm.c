/* A matrix product with three parameters: the size of its tiles in registers, and the order of the loops over tiles.
 * The file tunes without changes: the definitions here are the values without a tuner. */
#ifndef ROWS
#define ROWS 2
#endif
#ifndef COLUMNS
#define COLUMNS 8
#endif
#ifndef COLUMNS_OUTSIDE
#define COLUMNS_OUTSIDE 0
#endif

static void tile(int n, const double *A, const double *B, double *C, int i, int j) {
    double sum[ROWS][COLUMNS] = {{0.0}};
    for (int k = 0; k < n; k++)
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++)
                sum[r][c] += A[(i + r) * n + k] * B[k * n + j + c];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            C[(i + r) * n + j + c] = sum[r][c];
}

void dgemm(int n, const double *A, const double *B, double *C) {
#if COLUMNS_OUTSIDE
    for (int j = 0; j < n; j += COLUMNS)
        for (int i = 0; i < n; i += ROWS)
            tile(n, A, B, C, i, j);
#else
    for (int i = 0; i < n; i += ROWS)
        for (int j = 0; j < n; j += COLUMNS)
            tile(n, A, B, C, i, j);
#endif
}
