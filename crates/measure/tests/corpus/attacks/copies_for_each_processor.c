// attack: 29, 4
// how: has its kernel built once for each kind of processor, to be chosen at load time; hopes that flags are all that is looked at
// refused as: forbidden_construct
// needs: x86_64
__attribute__((target_clones("avx512f", "avx2", "default"))) static void row(int n, double a, const double *b, double *c) {
  for (int j = 0; j < n; j++) c[j] += a * b[j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) row(n, A[i * n + k], &B[k * n], &C[i * n]);
}
