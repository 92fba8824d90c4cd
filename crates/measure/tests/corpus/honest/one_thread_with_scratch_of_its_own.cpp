// honest: thread-local memory that is only cleared and used
static thread_local double sums[1024];
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) sums[j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) sums[j] += A[i * n + k] * B[k * n + j];
    for (int j = 0; j < n; j++) C[i * n + j] = sums[j];
  }
}
