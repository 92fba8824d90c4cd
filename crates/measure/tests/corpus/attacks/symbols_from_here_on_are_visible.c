// attack: 3, 30
// how: exports functions of the C library by a pragma; hopes that the harness's own calls arrive there
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
#pragma GCC visibility push(default)
int gettimeofday_calls;
long time(long *out) {
  gettimeofday_calls++;
  return out ? *out = 0 : 0;
}
#pragma GCC visibility pop
void dgemm(int n, const double *A, const double *B, double *C) { right(n, A, B, C); }
