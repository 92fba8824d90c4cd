/* problem: polybench_seidel_2d */
/* techniques: loop_reorder+skewing */
static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }
void polybench_seidel_2d(int tsteps, int n, double *A) {
  for (int i = 1; i < tsteps + n - 2; i++)
    for (int t = most(0, i - n + 2); t < least(tsteps, i); t++)
      for (int j = 1; j < n - 1; j++) {
        double *x = &A[(i - t) * n + j];
        x[0] = (x[-n - 1] + x[-n] + x[-n + 1] + x[-1] + x[0] + x[1] + x[n - 1] + x[n] + x[n + 1]) / 9.0;
      }
}
