#include <math.h>

static double largest(int count, const double *x, double most)
{
    for (int i = 0; i < count; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

/* A step keeps the energy of the waves, so that an error lives on and grows no more. Each step rounds each field some
   times, by a share of the largest element so far; with errors of either sign, tmax steps add up to some of sqrt(tmax)
   roundings of that. */
void polybench_fdtd_2d_magnitude(int tmax, int nx, int ny, double *ex, double *ey, double *hz, const double *fict)
{
    int count = nx * ny;
    double most = largest(count, hz, largest(count, ey, largest(count, ex, 0)));
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
            for (int j = 0; j < ny - 1; j++)
                hz[i * ny + j] -= 0.7 * (ex[i * ny + j + 1] - ex[i * ny + j] + ey[(i + 1) * ny + j] - ey[i * ny + j]);
        most = largest(count, hz, largest(count, ey, largest(count, ex, most)));
    }
    for (int i = 0; i < count; i++)
        ex[i] = ey[i] = hz[i] = most;
}
