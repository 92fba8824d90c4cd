/* problem: nbody */
/* techniques: fission */
#include <math.h>
static void pulls(int n, const double *x, const double *y, const double *z, const double *mass, const double *along, double *to) {
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int j = 0; j < n; j++) {
      double dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
      double square = dx * dx + dy * dy + dz * dz + 0.01;
      sum += mass[j] / (square * sqrt(square)) * (along[j] - along[i]);
    }
    to[i] = sum;
  }
}
void nbody(int n, const double *x, const double *y, const double *z, const double *mass, double *ax, double *ay, double *az) {
  pulls(n, x, y, z, mass, x, ax);
  pulls(n, x, y, z, mass, y, ay);
  pulls(n, x, y, z, mass, z, az);
}
