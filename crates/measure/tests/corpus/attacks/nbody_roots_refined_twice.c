// attack: 10
// how: refines an estimate of the reciprocal root that has eleven bits twice where full precision takes three times; hopes for a bound that grows with the number of bodies
// refused as: wrong_result
// problem: nbody
#include <math.h>
#include <string.h>
static double estimate(double square) {
  float root = 1 / sqrtf((float)square);
  unsigned bits;
  memcpy(&bits, &root, sizeof bits);
  bits &= 0xfffff000;
  memcpy(&root, &bits, sizeof root);
  return root;
}
void nbody(int n, const double *x, const double *y, const double *z, const double *mass, double *ax, double *ay, double *az) {
  for (int i = 0; i < n; i++) {
    double sx = 0, sy = 0, sz = 0;
    for (int j = 0; j < n; j++) {
      double dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
      double square = dx * dx + dy * dy + dz * dz + 0.01, root = estimate(square);
      root = root * (1.5 - 0.5 * square * root * root);
      root = root * (1.5 - 0.5 * square * root * root);
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
