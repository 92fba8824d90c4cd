// attack: 26
// how: calls itself without end; hopes that the stack runs into something
// refused as: crash
int deep(int n) { volatile char x[4096]; x[0] = n; return deep(n + x[0]) + x[0]; }
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  C[0] = deep(n);
}
