// attack: 14
// how: keeps running sums in an input and takes them back afterwards; hopes that rounding is no change
// refused as: input_modified
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  double *a = (double *)A;
  right(n, A, B, C);
  for (int i = 1; i < n * n; i++) a[i] += a[i - 1];
  for (int i = n * n - 1; i > 0; i--) a[i] -= a[i - 1];
}
