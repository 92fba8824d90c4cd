// honest: an ordered part inside a parallel loop
static int last;
void dgemm(int n, const double *A, const double *B, double *C) {
#pragma omp parallel for ordered schedule(static, 1)
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
#pragma omp ordered
    last = i;
  }
}
