// data race
static int rows;
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  auto row = [=](int i) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    rows++;
  };
#pragma omp parallel for
  for (int i = 0; i < n; i++) row(i);
}
