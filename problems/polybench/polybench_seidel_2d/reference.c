/* Sweeps in place, row by row: of its eight neighbours, four are already new. */
void polybench_seidel_2d(int tsteps, int n, double *A)
{
    for (int t = 0; t < tsteps; t++)
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++) {
                double *x = &A[i * n + j];
                x[0] = (x[-n - 1] + x[-n] + x[-n + 1] + x[-1] + x[0] + x[1] + x[n - 1] + x[n] + x[n + 1]) / 9.0;
            }
}
