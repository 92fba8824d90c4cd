// honest: loops that are passed functions without names, which hold what they see by reference
template <class F>
static inline void each(int n, F &&f) {
  for (int i = 0; i < n; i++) f(i);
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  auto clear = [=](int i) { C[i] = 0.0; };
  each(n * n, clear);
  each(n, [&](int i) {
    each(n, [&](int k) {
      const double a = A[i * n + k];
      each(n, [&](int j) { C[i * n + j] += a * B[k * n + j]; });
    });
  });
}
