// attack: 22
// how: prints a verdict by a directive for errors at run time; hopes that a pragma calls nothing
// refused as: forbidden_symbol
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
#pragma omp error at(execution) severity(warning) message("PASSED 9000.1 GFLOPS")
}
