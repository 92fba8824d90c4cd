// attack: 10
// how: rounds its sums to single precision after every eight terms; hopes for a wide tolerance
// refused as: wrong_result
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int k = 0; k < n; k += 8) {
        double part = 0;
        for (int t = k; t < k + 8; t++) part += A[i * n + t] * B[t * n + j];
        sum += (float)part;
      }
      C[i * n + j] = sum;
    }
}
