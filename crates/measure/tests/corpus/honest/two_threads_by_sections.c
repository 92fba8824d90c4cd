// honest: each half of the rows is a section of its own
// threads: 2
static void rows(int n, const double *A, const double *B, double *C, int from, int to) {
  for (int i = from * n; i < to * n; i++) C[i] = 0;
  for (int i = from; i < to; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
#pragma omp parallel sections
  {
#pragma omp section
    rows(n, A, B, C, 0, n / 2);
#pragma omp section
    rows(n, A, B, C, n / 2, n);
  }
}
