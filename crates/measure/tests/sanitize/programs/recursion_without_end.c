// stack-overflow
static __attribute__((noinline)) double deeper(int n, const double *A) {
  volatile double row[64];
  row[n % 64] = A[0];
  return n < 0 ? row[0] : deeper(n + 64, A) + row[1];
}
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  C[0] += 0 * deeper(n, A);
}
