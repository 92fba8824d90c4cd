// honest: one thread makes a task of every few rows, and a free thread takes one
// threads: 2
void dgemm(int n, const double *A, const double *B, double *C) {
#pragma omp parallel
#pragma omp single
#pragma omp taskloop grainsize(8)
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
