// attack: 8, 11
// how: gives other last bits in every other call of the timed size; hopes that only small ones are repeated
// refused as: nondeterministic
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static int calls;
  right(n, A, B, C);
  if (n == 256 && (calls++ & 1))
    for (int i = 0; i < n * n; i++) C[i] *= 1 + 2.3e-16;
}
