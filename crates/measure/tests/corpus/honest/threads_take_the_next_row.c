// honest: an atomic counter hands out rows
void dgemm(int n, const double *A, const double *B, double *C) {
  int next = 0;
#pragma omp parallel shared(next)
  for (;;) {
    int i;
#pragma omp atomic capture
    i = next++;
    if (i >= n) break;
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
