#include <string.h>

/* One step, off the faces. */
static void step(int n, const double *from, double *to)
{
    int row = n, plane = n * n;
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            for (int k = 1; k < n - 1; k++) {
                const double *x = &from[i * plane + j * row + k];
                to[i * plane + j * row + k] = 0.125 * (x[plane] - 2 * x[0] + x[-plane])
                                              + 0.125 * (x[row] - 2 * x[0] + x[-row])
                                              + 0.125 * (x[1] - 2 * x[0] + x[-1]) + x[0];
            }
}

/* Two steps at a time, from A to B and back; the faces of B are those of A. */
void polybench_heat_3d(int tsteps, int n, double *A, double *B)
{
    memcpy(B, A, sizeof *B * n * n * n);
    for (int t = 0; t < tsteps; t++) {
        step(n, A, B);
        step(n, B, A);
    }
}
