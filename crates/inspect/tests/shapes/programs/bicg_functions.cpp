// problem: polybench_bicg
// techniques: fission
namespace {
void across(int m, int n, const double *A, const double *r, double *s) {
  for (int j = 0; j < m; ++j) s[j] = 0;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < m; ++j) s[j] += r[i] * A[i * m + j];
}
void along(int m, int n, const double *A, const double *p, double *q) {
  for (int i = 0; i < n; ++i) {
    double sum = 0;
    for (int j = 0; j < m; ++j) sum += A[i * m + j] * p[j];
    q[i] = sum;
  }
}
}
extern "C" void polybench_bicg(int m, int n, const double *A, const double *p, const double *r, double *s, double *q) {
  along(m, n, A, p, q);
  across(m, n, A, r, s);
}
