/* Takes its roots in single precision. */
#include <math.h>

void nbody(int n, const double *x, const double *y, const double *z, const double *mass, double *ax, double *ay,
           double *az)
{
    for (int i = 0; i < n; i++) {
        double sx = 0, sy = 0, sz = 0;
        for (int j = 0; j < n; j++) {
            double dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
            double root = 1 / sqrtf(dx * dx + dy * dy + dz * dz + 0.01);
            double pull = mass[j] * root * root * root;
            sx += pull * dx;
            sy += pull * dy;
            sz += pull * dz;
        }
        ax[i] = sx;
        ay[i] = sy;
        az[i] = sz;
    }
}
