// honest: an attribute that says which arguments are only read
static __attribute__((access(read_only, 3, 1), access(read_write, 4, 1), noinline)) void row(int n, double a, const double *b, double *c) {
  for (int j = 0; j < n; j++) c[j] += a * b[j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int e = 0; e < n * n; e++) C[e] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) row(n, A[i * n + k], B + k * n, C + i * n);
}
