/* problem: nbody */
/* techniques: register_blocking+simd */
#include <math.h>
typedef double V __attribute__((vector_size(32), aligned(8)));
static V root(V v) { return (V){sqrt(v[0]), sqrt(v[1]), sqrt(v[2]), sqrt(v[3])}; }
void nbody(int n, const double *x, const double *y, const double *z, const double *mass, double *ax, double *ay, double *az) {
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    V x0 = *(V *)&x[i], x1 = *(V *)&x[i + 4], y0 = *(V *)&y[i], y1 = *(V *)&y[i + 4], z0 = *(V *)&z[i], z1 = *(V *)&z[i + 4];
    V sx0 = {0}, sx1 = {0}, sy0 = {0}, sy1 = {0}, sz0 = {0}, sz1 = {0};
    for (int j = 0; j < n; j++) {
      V dx = x[j] - x0, dy = y[j] - y0, dz = z[j] - z0;
      V s = dx * dx + dy * dy + dz * dz + 0.01, f = mass[j] / (s * root(s));
      sx0 += f * dx, sy0 += f * dy, sz0 += f * dz;
      dx = x[j] - x1, dy = y[j] - y1, dz = z[j] - z1;
      s = dx * dx + dy * dy + dz * dz + 0.01, f = mass[j] / (s * root(s));
      sx1 += f * dx, sy1 += f * dy, sz1 += f * dz;
    }
    *(V *)&ax[i] = sx0, *(V *)&ax[i + 4] = sx1, *(V *)&ay[i] = sy0, *(V *)&ay[i + 4] = sy1, *(V *)&az[i] = sz0, *(V *)&az[i + 4] = sz1;
  }
  for (; i < n; i++) {
    double sx = 0, sy = 0, sz = 0;
    for (int j = 0; j < n; j++) {
      double dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i], s = dx * dx + dy * dy + dz * dz + 0.01, f = mass[j] / (s * sqrt(s));
      sx += f * dx, sy += f * dy, sz += f * dz;
    }
    ax[i] = sx, ay[i] = sy, az[i] = sz;
  }
}
