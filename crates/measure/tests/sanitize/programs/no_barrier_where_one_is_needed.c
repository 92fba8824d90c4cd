// data race
static double copy[512 * 512];
void dgemm(int n, const double *A, const double *B, double *C) {
#pragma omp parallel
  {
#pragma omp for nowait
    for (int i = 0; i < n; i++)
      for (int k = 0; k < n; k++) copy[i * n + k] = A[i * n + k];
    volatile double seen = copy[n * n - 1] + copy[0];
    (void)seen;
#pragma omp for
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < n; j++) C[i * n + j] = 0;
      for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) C[i * n + j] += copy[i * n + k] * B[k * n + j];
    }
  }
}
