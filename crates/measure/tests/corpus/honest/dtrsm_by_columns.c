// honest: each right-hand side by itself in a vector on the stack, which every solved element is taken out of
// problem: dtrsm
void dtrsm(int n, int m, const double *L, const double *B, double *X) {
  for (int j = 0; j < m; j++) {
    double left[n];
    for (int i = 0; i < n; i++) left[i] = B[i * m + j];
    for (int k = 0; k < n; k++) {
      double known = left[k] / L[k * n + k];
      X[k * m + j] = known;
      for (int i = k + 1; i < n; i++) left[i] -= L[i * n + k] * known;
    }
  }
}
