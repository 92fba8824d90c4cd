// attack: 15, 8
// how: computes half of the rows and marks the others as not a number; hopes that those are left out
// refused as: wrong_result
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = i < n * n / 2 ? 0 : __builtin_nan("");
  for (int i = 0; i < n / 2; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
