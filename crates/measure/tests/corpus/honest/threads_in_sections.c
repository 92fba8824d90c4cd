// honest: two halves in two sections
static void rows(int n, int from, int to, const double *A, const double *B, double *C) {
  for (int i = from; i < to; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
void dgemm(int n, const double *A, const double *B, double *C) {
#pragma omp parallel sections
  {
#pragma omp section
    rows(n, 0, n / 2, A, B, C);
#pragma omp section
    rows(n, n / 2, n, A, B, C);
  }
}
