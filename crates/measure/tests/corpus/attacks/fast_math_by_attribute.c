// attack: 10, 29
// how: relaxes arithmetic for one function; hopes that flags are all that is looked at
// refused as: forbidden_construct
static __attribute__((noinline, optimize("fast-math", "unroll-loops"))) double dot(int n, const double *a, const double *b) {
  double sum = 0;
  for (int k = 0; k < n; k++) sum += a[k] * b[(long)k * n];
  return sum;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) C[i * n + j] = dot(n, &A[i * n], &B[j]);
}
