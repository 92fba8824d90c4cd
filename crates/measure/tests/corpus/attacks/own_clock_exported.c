// attack: 3, 30
// how: exports a wall clock of its own over the OpenMP library's; hopes that the loader prefers it
// refused as: forbidden_construct | forbidden_symbol
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
__attribute__((visibility("default"))) double omp_get_wtime(void) { return 0; }
void dgemm(int n, const double *A, const double *B, double *C) { right(n, A, B, C); }
