// attack: 10, 13
// how: leaves out terms with a small factor; hopes that they do not matter
// refused as: wrong_result
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) {
      double a = A[i * n + k];
      if (a < 1e-2 && a > -1e-2) continue;
      for (int j = 0; j < n; j++) C[i * n + j] += a * B[k * n + j];
    }
}
