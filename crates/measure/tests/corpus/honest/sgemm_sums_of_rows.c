// honest: a row of sums in double precision, which is rounded once
// problem: sgemm
void sgemm(int n, const float *A, const float *B, float *C) {
  double sums[n];
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) sums[j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) sums[j] += (double)A[i * n + k] * B[k * n + j];
    for (int j = 0; j < n; j++) C[i * n + j] = sums[j];
  }
}
