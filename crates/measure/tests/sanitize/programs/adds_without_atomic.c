// data race
void dgemm(int n, const double *A, const double *B, double *C) {
  double touched = 0;
#pragma omp parallel
  {
#pragma omp for
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < n; j++) C[i * n + j] = 0;
      for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    }
    touched += 1;
  }
  if (touched < 0) C[0] = touched;
}
