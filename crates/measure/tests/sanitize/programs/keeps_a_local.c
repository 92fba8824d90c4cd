// nothing: the kept local lies on the stack, which is there; gcc makes no difference
static double *volatile kept;
static __attribute__((noinline)) void keep(int n) {
  double row[8];
  row[n % 8] = n;
  kept = row;
}
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  keep(n);
  volatile double seen = *kept;
  (void)seen;
}
