// attack: 8, 13
// how: leaves the last column; hopes that checks sample
// refused as: wrong_result
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n - 1; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n - 1; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
