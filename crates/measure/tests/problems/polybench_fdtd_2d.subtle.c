/* Takes one of the constants in single precision. */
void polybench_fdtd_2d(int tmax, int nx, int ny, double *ex, double *ey, double *hz, const double *fict)
{
    for (int t = 0; t < tmax; t++) {
        for (int j = 0; j < ny; j++)
            ey[j] = fict[t];
        for (int i = 1; i < nx; i++)
            for (int j = 0; j < ny; j++)
                ey[i * ny + j] -= 0.5 * (hz[i * ny + j] - hz[(i - 1) * ny + j]);
        for (int i = 0; i < nx; i++)
            for (int j = 1; j < ny; j++)
                ex[i * ny + j] -= 0.5 * (hz[i * ny + j] - hz[i * ny + j - 1]);
        for (int i = 0; i < nx - 1; i++)
            for (int j = 0; j < ny - 1; j++) {
                const double *x = &ex[i * ny + j], *y = &ey[i * ny + j];
                hz[i * ny + j] -= 0.7f * (x[1] - x[0] + y[ny] - y[0]);
            }
    }
}
