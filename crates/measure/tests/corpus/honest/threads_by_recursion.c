// honest: tasks that make tasks, with waits in between
static void part(int n, int rows, const double *A, const double *B, double *C) {
  if (rows > 32) {
#pragma omp task
    part(n, rows / 2, A, B, C);
    part(n, rows - rows / 2, A + rows / 2 * n, B, C + rows / 2 * n);
#pragma omp taskwait
    return;
  }
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
void dgemm(int n, const double *A, const double *B, double *C) {
#pragma omp parallel
#pragma omp single
  part(n, n, A, B, C);
}
