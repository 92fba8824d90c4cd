// honest: sweeps in place with two old rows in hand, and copies before the last step
// problem: polybench_jacobi_2d
#include <stdlib.h>
#include <string.h>
static void sweep(int n, double *x, double *above, double *here) {
  memcpy(above, x, sizeof *x * n);
  for (int i = 1; i < n - 1; i++) {
    memcpy(here, &x[i * n], sizeof *x * n);
    for (int j = 1; j < n - 1; j++)
      x[i * n + j] = 0.2 * ((above[j] + x[(i + 1) * n + j]) + (here[j - 1] + here[j + 1]) + here[j]);
    double *old = above;
    above = here;
    here = old;
  }
}
void polybench_jacobi_2d(int tsteps, int n, double *A, double *B) {
  double *rows = malloc(sizeof *rows * 2 * n);
  if (!rows) abort();
  for (int step = 1; step < 2 * tsteps; step++) sweep(n, A, rows, rows + n);
  memcpy(B, A, sizeof *B * n * n);
  sweep(n, A, rows, rows + n);
  free(rows);
}
