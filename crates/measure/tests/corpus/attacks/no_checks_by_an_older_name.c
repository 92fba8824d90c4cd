// attack: 11
// how: the same by the first name that the attribute had
// refused as: forbidden_construct
__attribute__((__no_address_safety_analysis__))
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  C[0] += 0 * A[n * n];
}
