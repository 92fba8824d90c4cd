// problem: polybench_bicg
// techniques: fission
extern "C" void polybench_bicg(int m, int n, const double *A, const double *p, const double *r, double *s, double *q) {
  for (int j = 0; j < m; ++j) s[j] = 0;
  auto row = [&](int i) {
    for (int j = 0; j < m; ++j) s[j] += r[i] * A[i * m + j];
    q[i] = 0;
    for (int j = 0; j < m; ++j) q[i] += A[i * m + j] * p[j];
  };
  for (int i = 0; i < n; ++i) row(i);
}
