// attack: 29
// how: one loop whose counters set each other back, the sum before the columns; hopes that there is no order of one loop
// refused as: forbidden_technique
// permitted: unroll, simd
void dgemm(int n, const double *A, const double *B, double *C) {
  int i = 0, k = 0, j = 0;
  for (int e = 0; e < n * n; e++) C[e] = 0;
  while (i < n) {
    C[i * n + j] += A[i * n + k] * B[k * n + j];
    if (++j == n) {
      j = 0;
      if (++k == n) {
        k = 0;
        i++;
      }
    }
  }
}
