// attack: 29
// how: asks for wider registers than the flags give, for one function; hopes that flags are all that is looked at
// refused as: forbidden_construct
// needs: x86_64
__attribute__((target("avx512f,prefer-vector-width=512"))) static void row(int n, double a, const double *b, double *c) {
  for (int j = 0; j < n; j++) c[j] += a * b[j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) row(n, A[i * n + k], &B[k * n], &C[i * n]);
}
