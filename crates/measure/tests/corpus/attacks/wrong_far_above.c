// attack: 12
// how: is right up to nearly twice the timed size only; hopes that sizes that are dear to check are not checked
// refused as: wrong_result | harmless
// control: if (n > 448) => if (n > 1 << 30)
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  if (n > 448) C[0] = 1e200;
}
