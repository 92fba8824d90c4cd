// honest: bodies as structures in a table on the stack; each pair is looked at once and pulls both ways
// problem: nbody
#include <math.h>
struct body {
  double at[3], mass, pulled[3];
};
void nbody(int n, const double *x, const double *y, const double *z, const double *mass, double *ax, double *ay, double *az) {
  struct body all[n];
  for (int i = 0; i < n; i++) all[i] = (struct body){.at = {x[i], y[i], z[i]}, .mass = mass[i]};
  for (struct body *a = all; a < all + n; a++)
    for (struct body *b = a + 1; b < all + n; b++) {
      double way[3], square = 0.01;
      for (int d = 0; d < 3; d++) {
        way[d] = b->at[d] - a->at[d];
        square += way[d] * way[d];
      }
      double each = 1 / (square * sqrt(square));
      for (int d = 0; d < 3; d++) {
        a->pulled[d] += b->mass * each * way[d];
        b->pulled[d] -= a->mass * each * way[d];
      }
    }
  for (int i = 0; i < n; i++) ax[i] = all[i].pulled[0], ay[i] = all[i].pulled[1], az[i] = all[i].pulled[2];
}
