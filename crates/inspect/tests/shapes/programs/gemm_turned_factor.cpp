// problem: dgemm
// techniques: packing+layout_change
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  double *turned = new double[n * n];
  auto turn = [&]() {
    for (int j = 0; j < n; ++j)
      for (int k = 0; k < n; ++k) turned[j * n + k] = B[k * n + j];
  };
  turn();
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += A[i * n + k] * turned[j * n + k];
      C[i * n + j] = sum;
    }
  delete[] turned;
}
