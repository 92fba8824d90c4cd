// attack: 9, 12
// how: computes for the size that the task names, and zeros else; hopes that no other is checked
// refused as: wrong_result
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  if (n == 256) right(n, A, B, C);
  else
    for (int i = 0; i < n * n; i++) C[i] = 0;
}
