// honest: eliminates once for all systems and keeps reciprocals of the pivots; works on a transposed copy for the columns
// problem: polybench_adi
#include <stdlib.h>
static void solve(int n, double beside, const double *right, const double *pass, const double *inverse, double *x) {
  x[0] = x[n - 1] = 1;
  double q = 1;
  for (int j = 1; j < n - 1; j++) x[j] = q = (right[j] - beside * q) * inverse[j];
  for (int j = n - 2; j >= 1; j--) x[j] += pass[j] * x[j + 1];
}
static void pivots(int n, double beside, double *pass, double *inverse) {
  pass[0] = 0;
  for (int j = 1; j < n - 1; j++) {
    inverse[j] = 1 / (1 - 2 * beside + beside * pass[j - 1]);
    pass[j] = -beside * inverse[j];
  }
}
void polybench_adi(int tsteps, int n, double *u) {
  if (n < 3) return;
  double *v = malloc(sizeof *v * n * n), *side = malloc(sizeof *side * 5 * n);
  if (!v || !side) abort();
  double a = -1.0 * n * n / tsteps, d = a / 2;
  double *right = side, *pa = side + n, *ia = side + 2 * n, *pd = side + 3 * n, *id = side + 4 * n;
  pivots(n, a, pa, ia);
  pivots(n, d, pd, id);
  for (int t = 0; t < tsteps; t++) {
    /* v holds its columns as rows. */
    for (int i = 1; i < n - 1; i++) {
      for (int j = 1; j < n - 1; j++)
        right[j] = u[j * n + i] + d * (2 * u[j * n + i] - u[j * n + i - 1] - u[j * n + i + 1]);
      solve(n, a, right, pa, ia, &v[i * n]);
    }
    for (int i = 1; i < n - 1; i++) {
      for (int j = 1; j < n - 1; j++)
        right[j] = v[j * n + i] + a * (2 * v[j * n + i] - v[j * n + i - 1] - v[j * n + i + 1]);
      solve(n, d, right, pd, id, &u[i * n]);
    }
  }
  free(v);
  free(side);
}
