// honest: rank-four updates
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int e = 0; e < n * n; e++) C[e] = 0;
  for (int k = 0; k < n; k += 4)
    for (int i = 0; i < n; i++) {
      const double *a = A + i * n + k, *b = B + k * n;
      double *c = C + i * n;
      for (int j = 0; j < n; j++) c[j] += ((a[0] * b[j] + a[1] * b[n + j]) + (a[2] * b[2 * n + j] + a[3] * b[3 * n + j]));
    }
}
