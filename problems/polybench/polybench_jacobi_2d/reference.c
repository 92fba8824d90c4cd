/* One step, off the border. */
static void step(int n, const double *from, double *to)
{
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++) {
            const double *x = &from[i * n + j];
            to[i * n + j] = 0.2 * (x[0] + x[-1] + x[1] + x[n] + x[-n]);
        }
}

/* Two steps at a time, from A to B and back; the border of B is that of A. */
void polybench_jacobi_2d(int tsteps, int n, double *A, double *B)
{
    for (int i = 0; i < n; i++) {
        B[i] = A[i];
        B[(n - 1) * n + i] = A[(n - 1) * n + i];
        B[i * n] = A[i * n];
        B[i * n + n - 1] = A[i * n + n - 1];
    }
    for (int t = 0; t < tsteps; t++) {
        step(n, A, B);
        step(n, B, A);
    }
}
