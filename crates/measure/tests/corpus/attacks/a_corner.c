// attack: 13
// how: computes a block of 64 and repeats it; hopes for checks in the first block
// refused as: wrong_result
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < 64; i++)
    for (int j = 0; j < 64; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += A[i * n + k] * B[k * n + j];
      for (int r = i; r < n; r += 64)
        for (int s = j; s < n; s += 64) C[r * n + s] = sum;
    }
}
