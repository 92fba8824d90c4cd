// honest: a packed panel whose size is an argument
void dgemm(int n, const double *A, const double *B, double *C) {
  double panel[n][16];
  for (int j = 0; j < n; j += 16) {
    for (int k = 0; k < n; k++)
      for (int s = 0; s < 16; s++) panel[k][s] = B[k * n + j + s];
    for (int i = 0; i < n; i += 2) {
      double c[2][16] = {{0}};
      for (int k = 0; k < n; k++)
        for (int r = 0; r < 2; r++)
          for (int s = 0; s < 16; s++) c[r][s] += A[(i + r) * n + k] * panel[k][s];
      for (int r = 0; r < 2; r++)
        for (int s = 0; s < 16; s++) C[(i + r) * n + j + s] = c[r][s];
    }
  }
}
