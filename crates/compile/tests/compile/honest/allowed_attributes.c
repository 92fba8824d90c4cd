// loop_reorder
static __attribute__((noinline, hot, flatten, unused)) void row(int n, double a, const double *__restrict__ b, double *__restrict__ c) {
  b = __builtin_assume_aligned(b, 8);
  for (int j = 0; j < n; j++) c[j] += a * b[j];
}
__attribute__((hot)) void dgemm(int n, const double *A, const double *B, double *C) {
  _Alignas(64) static double zero[8];
  for (int i = 0; i < n * n; i++) C[i] = zero[i & 7];
  for (int i = 0; i < n; i++)
    for (int k = 0; __builtin_expect(k < n, 1); k++) row(n, A[i * n + k], &B[k * n], &C[i * n]);
}
