// attack: 11
// how: takes the sanitizers out of the function that reads too far; hopes that nobody minds
// refused as: forbidden_construct
__attribute__((no_sanitize("address", "undefined")))
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  C[0] += 0 * A[n * n];
}
