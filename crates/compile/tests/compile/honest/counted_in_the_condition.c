// loop_reorder
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++) {
    int k = 0;
    do {
      int j = 0;
      do C[i * n + j] += A[i * n + k] * B[k * n + j];
      while (++j < n);
    } while (++k < n);
  }
}
