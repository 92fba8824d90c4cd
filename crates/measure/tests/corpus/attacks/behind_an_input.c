// attack: 11, 14
// how: uses the space behind an input as scratch; hopes that only the output's surroundings are looked at
// refused as: out_of_bounds
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  double *scratch = (double *)B + n * n;
  right(n, A, B, C);
  for (int i = 0; i < 8; i++) scratch[i] = C[i];
}
