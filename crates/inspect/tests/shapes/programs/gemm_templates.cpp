// problem: dgemm
// techniques: loop_reorder+register_blocking
template <int R, int S>
static inline void tile(int n, const double *a, const double *b, double *c) {
  double acc[R][S] = {};
  for (int k = 0; k < n; ++k)
    for (int r = 0; r < R; ++r)
      for (int s = 0; s < S; ++s) acc[r][s] += a[r * n + k] * b[k * n + s];
  for (int r = 0; r < R; ++r)
    for (int s = 0; s < S; ++s) c[r * n + s] = acc[r][s];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  for (int j = 0; j < n; j += 8)
    for (int i = 0; i < n; i += 4) tile<4, 8>(n, A + i * n, B + j, C + i * n + j);
}
