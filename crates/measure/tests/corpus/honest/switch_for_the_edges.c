// honest: a switch that falls through handles what a general size would leave over
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    double *c = C + i * n;
    for (int j = 0; j < n; j++) c[j] = 0;
    for (int k = 0; k < n; k++) {
      const double a = A[i * n + k], *b = B + k * n;
      int j = 0;
      for (; j + 4 <= n; j += 4) c[j] += a * b[j], c[j + 1] += a * b[j + 1], c[j + 2] += a * b[j + 2], c[j + 3] += a * b[j + 3];
      switch (n - j) {
        case 3: c[j + 2] += a * b[j + 2]; __attribute__((fallthrough));
        case 2: c[j + 1] += a * b[j + 1]; /* fall through */
        case 1: c[j] += a * b[j];
        default: break;
      }
    }
  }
}
