// honest: the first operand is copied into columns, in blocks
void dgemm(int n, const double *A, const double *B, double *C) {
  double column[512][4];
  for (int i = 0; i < n; i += 4) {
    for (int r = 0; r < 4; r++)
      for (int k = 0; k < n; k++) column[k][r] = A[(i + r) * n + k];
    for (int j = 0; j < n; j += 8) {
      double c[4][8] = {{0}};
      for (int k = 0; k < n; k++)
        for (int r = 0; r < 4; r++)
          for (int s = 0; s < 8; s++) c[r][s] += column[k][r] * B[k * n + j + s];
      for (int r = 0; r < 4; r++)
        for (int s = 0; s < 8; s++) C[(i + r) * n + j + s] = c[r][s];
    }
  }
}
