// honest: rows as small objects, and a template for what is done to them
// problem: polybench_trmm
struct row {
  double *at;
  int length;
  template <typename F> void each(F f) const {
    for (int j = 0; j < length; j++) at[j] = f(at[j], j);
  }
};
extern "C" void polybench_trmm(int m, int n, double alpha, const double *A, double *B) {
  for (int i = 0; i < m; i++) {
    const row to{B + i * n, n};
    for (int k = i + 1; k < m; k++) {
      const double a = A[k * m + i], *from = B + k * n;
      to.each([=](double x, int j) { return x + a * from[j]; });
    }
    to.each([=](double x, int) { return alpha * x; });
  }
}
