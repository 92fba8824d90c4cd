// honest: all loops run downwards
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = n - 1; i >= 0; i--) {
    for (int j = n; j-- > 0;) C[i * n + j] = 0;
    for (int k = n - 1; k >= 0; --k)
      for (int j = n - 1; j >= 0; j -= 1) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
