// attack: 26
// how: two functions that call each other without end; hopes that a small frame is not noticed
// refused as: crash
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static double down(int n, volatile double *x);
static __attribute__((noinline)) double up(int n, volatile double *x) {
  volatile double mine[64];
  mine[n & 63] = *x;
  return down(n + 1, mine) + mine[0];
}
static __attribute__((noinline)) double down(int n, volatile double *x) {
  volatile double mine[64];
  mine[n & 63] = *x;
  return up(n + 1, mine) + mine[1];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  C[0] += down(n, C);
}
