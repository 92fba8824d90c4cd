// loop_reorder
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    double *c = C + i * n;
    for (int j = 0; j < n; j++) c[j] = 0;
    const double *b = B;
    for (int k = 0; k < n; k++) {
      double a = A[i * n + k];
      for (int j = 0; j < n; j++) c[j] += a * b[j];
      b += n;
    }
  }
}
