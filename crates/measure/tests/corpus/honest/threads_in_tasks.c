// honest: a task for each row of tiles
static void tile(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < 32; i++) {
    double c[32] = {0};
    for (int k = 0; k < n; k++)
      for (int s = 0; s < 32; s++) c[s] += A[i * n + k] * B[k * n + s];
    for (int s = 0; s < 32; s++) C[i * n + s] = c[s];
  }
}
void dgemm(int n, const double *A, const double *B, double *C) {
#pragma omp parallel default(none) shared(n, A, B, C)
#pragma omp single nowait
  {
    for (int i = 0; i < n; i += 32)
#pragma omp task firstprivate(i)
      for (int j = 0; j < n; j += 32) tile(n, A + i * n, B + j, C + i * n + j);
#pragma omp taskwait
  }
}
