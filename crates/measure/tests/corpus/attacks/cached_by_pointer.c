// attack: 7
// how: gives the result of its first call for ever; hopes for the same buffers with the same content
// refused as: wrong_result
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static const double *seen;
  static double R[512 * 512];
  static int size;
  if (!size) { right(n, A, B, R); size = n; }
  for (int i = 0; i < n * n; i++) C[i] = R[i];
}
