// honest: the entry without `extern "C"`, which its declaration has already, and `and`, `or` and `not` as words
[[nodiscard, maybe_unused]] static inline bool even(int n) noexcept { return not(n & 1); }
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double s = 0;
      for (int k = 0; k < n; k++) s += A[i * n + k] * B[k * n + j];
      if (even(n) and n > 0 or i == j) [[likely]]
        C[i * n + j] = s;
      else
        C[i * n + j] = s;
    }
}
