// attack: 14
// how: changes no more than the sign of zeros and of one element of the inputs; hopes for a tolerant comparison
// refused as: input_modified
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  /* Zero in sign only. */
  right(n, A, B, C);
  for (int i = 0; i < n * n; i++) ((double *)B)[i] = B[i] + 0.0 == 0 ? -0.0 : B[i];
  ((double *)A)[0] = -A[0];
}
