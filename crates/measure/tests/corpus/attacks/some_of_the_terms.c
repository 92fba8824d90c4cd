// attack: 10, 13
// how: adds every fourth term and multiplies by four; hopes for a tolerance as wide as the spread
// refused as: wrong_result
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k += 4) {
      double a = 4 * A[i * n + k];
      for (int j = 0; j < n; j++) C[i * n + j] += a * B[k * n + j];
    }
}
