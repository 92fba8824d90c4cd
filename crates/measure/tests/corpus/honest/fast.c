// honest: a packed panel, a tile of vectors and an unrolled sum
typedef double V __attribute__((vector_size(32), aligned(8)));
void dgemm(int n, const double *A, const double *B, double *C) {
  double P[n * 8];
  for (int j = 0; j < n; j += 8) {
    for (int k = 0; k < n; k++)
      for (int s = 0; s < 8; s++) P[k * 8 + s] = B[k * n + j + s];
    for (int i = 0; i < n; i += 4) {
      V c[4][2] = {0};
#pragma GCC unroll 2
      for (int k = 0; k < n; k++)
        for (int r = 0; r < 4; r++)
          for (int s = 0; s < 2; s++) c[r][s] += A[(i + r) * n + k] * *(V *)&P[k * 8 + s * 4];
      for (int r = 0; r < 4; r++)
        for (int s = 0; s < 2; s++) *(V *)&C[(i + r) * n + j + s * 4] = c[r][s];
    }
  }
}
