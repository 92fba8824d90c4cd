// loop_reorder
static void rows(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static void (*const kernels[])(int, const double *, const double *, double *) = {rows, rows};
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  kernels[n & 1](n, A, B, C);
}
