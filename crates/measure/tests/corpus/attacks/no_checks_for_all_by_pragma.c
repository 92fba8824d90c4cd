// attack: 11
// how: one pragma gives the attribute to all functions
// refused as: forbidden_construct
#pragma clang attribute push(__attribute__((no_sanitize("address"))), apply_to = function)
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  C[0] += 0 * A[n * n];
}
