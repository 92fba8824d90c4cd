// honest: attributes in the newer brackets
// needs: gcc
[[gnu::noinline]] static double factor(int kind, [[maybe_unused]] int spare) {
  double x = 0;
  switch (kind) {
  case 0: x += 1; [[fallthrough]];
  default: return x;
  }
}
void dgemm(int n, const double *A, const double *B, double *C) {
  double one = factor(0, n);
  for (int e = 0; e < n * n; e++) C[e] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += one * A[i * n + k] * B[k * n + j];
}
