// attack: 13
// how: sweeps over the elements of one colour and then over the others, which run in parallel; hopes that the limit is the same
// refused as: wrong_result
// problem: polybench_seidel_2d
void polybench_seidel_2d(int tsteps, int n, double *A) {
  for (int half = 0; half < 2 * tsteps; half++)
    for (int i = 1; i < n - 1; i++)
      for (int j = 1 + (i + half) % 2; j < n - 1; j += 2) {
        double *x = &A[i * n + j];
        x[0] = (x[-n - 1] + x[-n] + x[-n + 1] + x[-1] + x[0] + x[1] + x[n - 1] + x[n] + x[n + 1]) / 9;
      }
}
