// stack-buffer-overflow: READ of size 8
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  double row[8];
  for (int i = 0; i < 8; i++) row[i] = A[i];
  volatile double seen = row[n % 64 + 8];
  (void)seen;
}
