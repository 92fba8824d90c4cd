// honest: element after element along slanted fronts, on which none needs another one
// problem: polybench_seidel_2d
void polybench_seidel_2d(int tsteps, int n, double *A) {
  for (int t = 0; t < tsteps; t++)
    /* An element needs those above it to the right and on its left: fronts of 2·i + j. */
    for (int front = 3; front <= 3 * (n - 2); front++)
      for (int i = 1; i < n - 1; i++) {
        int j = front - 2 * i;
        if (j < 1 || j > n - 2) continue;
        double *x = &A[i * n + j];
        double above = x[-n - 1] + x[-n] + x[-n + 1], below = x[n - 1] + x[n] + x[n + 1];
        x[0] = (above + (x[-1] + x[0] + x[1]) + below) / 9;
      }
}
