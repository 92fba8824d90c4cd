// honest: sweeps in place with two numbers in hand, and copies before the last step
// problem: polybench_jacobi_1d
#include <string.h>
static void sweep(int n, double *x) {
  double before = x[0];
  for (int i = 1; i < n - 1; i++) {
    double here = x[i];
    x[i] = (before + here + x[i + 1]) * 0.33333;
    before = here;
  }
}
void polybench_jacobi_1d(int tsteps, int n, double *A, double *B) {
  for (int step = 1; step < 2 * tsteps; step++) sweep(n, A);
  memcpy(B, A, sizeof *B * n);
  sweep(n, A);
}
