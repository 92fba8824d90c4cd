// problem: dgemm
// techniques: cache_blocking+packing
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  double *panel = new double[64 * n];
  for (int jj = 0; jj < n; jj += 64) {
    for (int j = 0; j < 64; ++j)
      for (int k = 0; k < n; ++k) panel[j * n + k] = B[k * n + jj + j];
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < 64; ++j) {
        double sum = 0;
        for (int k = 0; k < n; ++k) sum += A[i * n + k] * panel[j * n + k];
        C[i * n + jj + j] = sum;
      }
  }
  delete[] panel;
}
