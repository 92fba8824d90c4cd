// honest: hints about alignment, likelihood and what never happens
void dgemm(int n, const double *A, const double *B, double *C) {
  if (n <= 0 || n % 64) __builtin_unreachable();
  const double *a = __builtin_assume_aligned(A, 64), *b = __builtin_assume_aligned(B, 64);
  double *c = __builtin_assume_aligned(C, 64);
  for (int i = 0; __builtin_expect(i < n, 1); i++) {
    for (int j = 0; j < n; j++) c[i * n + j] = __builtin_constant_p(n) ? 0.0 : 0;
    for (int k = 0; __builtin_expect_with_probability(k < n, 1, 0.99); k++) {
      __builtin_prefetch(b + (k + 2 < n ? k + 2 : k) * n, 0, 3);
      for (int j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
}
