#include <math.h>

/* The sum of the terms without signs. A difference of two coordinates is off by one rounding of itself, its square by
   three, the sum of squares and the constant, none of them negative, by six, its power 1.5 by eleven, a term by
   fifteen; the sum adds one for each term, of either sign. Reciprocal roots that are refined to full precision add two or three. */
void nbody_magnitude(int n, const double *x, const double *y, const double *z, const double *mass, double *ax,
                     double *ay, double *az)
{
    for (int i = 0; i < n; i++) {
        double sx = 0, sy = 0, sz = 0;
        for (int j = 0; j < n; j++) {
            double dx = fabs(x[j] - x[i]), dy = fabs(y[j] - y[i]), dz = fabs(z[j] - z[i]);
            double square = dx * dx + dy * dy + dz * dz + 0.01;
            double pull = fabs(mass[j]) / (square * sqrt(square));
            sx += pull * dx;
            sy += pull * dy;
            sz += pull * dz;
        }
        ax[i] = sx;
        ay[i] = sy;
        az[i] = sz;
    }
}
