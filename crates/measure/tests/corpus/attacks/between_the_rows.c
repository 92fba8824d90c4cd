// attack: 13
// how: computes every second row and takes the mean of its neighbours for the others; hopes for smooth operands
// refused as: wrong_result
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i += 2) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
  for (int i = 1; i < n; i += 2)
    for (int j = 0; j < n; j++) C[i * n + j] = (C[(i - 1) * n + j] + C[(i + 1 < n ? i + 1 : i - 1) * n + j]) / 2;
}
