// honest: says of each function whether it is visible
// permitted: loop_reorder
__attribute__((visibility("hidden"))) double zero(void) { return 0; }
#pragma GCC visibility push(hidden)
void row(int n, double a, const double *b, double *c) {
  for (int j = 0; j < n; j++) c[j] += a * b[j];
}
#pragma GCC visibility pop
__attribute__((visibility("default"))) void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = zero();
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) row(n, A[i * n + k], B + k * n, C + i * n);
}
