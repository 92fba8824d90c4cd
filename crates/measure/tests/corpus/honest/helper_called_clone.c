// honest: a helper of its own that has the name of a system call
static void clone(int n, const double *from, double *to) {
  for (int k = 0; k < n; k++) to[k] = from[(long)k * n];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  double column[512];
  for (int j = 0; j < n; j++) {
    clone(n, B + j, column);
    for (int i = 0; i < n; i++) {
      double sum[4] = {0};
      for (int k = 0; k < n; k += 4)
        for (int q = 0; q < 4; q++) sum[q] += A[i * n + k + q] * column[k + q];
      C[i * n + j] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
  }
}
