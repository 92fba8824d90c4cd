// honest: each sum carries what was rounded off
void dgemm(int n, const double *A, const double *B, double *C) {
  double rest[512];
  for (int i = 0; i < n; i++) {
    double *c = C + i * n;
    for (int j = 0; j < n; j++) c[j] = rest[j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) {
        double y = A[i * n + k] * B[k * n + j] - rest[j], t = c[j] + y;
        rest[j] = (t - c[j]) - y;
        c[j] = t;
      }
  }
}
