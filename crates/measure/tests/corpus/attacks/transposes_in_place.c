// attack: 14
// how: transposes the second operand where it lies and leaves it so; hopes that nobody needs it again
// refused as: input_modified
void dgemm(int n, const double *A, const double *B, double *C) {
  double *b = (double *)B;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++) {
      double x = b[i * n + j];
      b[i * n + j] = b[j * n + i], b[j * n + i] = x;
    }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += A[i * n + k] * b[j * n + k];
      C[i * n + j] = sum;
    }
}
