// honest: endless loops that are left by break and continue
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0;; i++) {
    if (i == n) break;
    for (int j = 0;; j++) {
      if (j >= n) break;
      C[i * n + j] = 0;
    }
    for (int k = 0; k < n; k++) {
      if (A[i * n + k] == 0) continue;
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    }
  }
}
