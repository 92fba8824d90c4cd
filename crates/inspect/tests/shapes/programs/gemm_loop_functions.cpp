// problem: sgemm
// techniques: loop_reorder
template <class F>
static inline void each(int from, int to, F &&body) {
  for (int i = from; i < to; ++i) body(i);
}
extern "C" void sgemm(int n, const float *A, const float *B, float *C) {
  each(0, n * n, [&](int e) { C[e] = 0; });
  each(0, n, [&](int i) {
    each(0, n, [&](int k) {
      const float a = A[i * n + k];
      for (int j = 0; j < n; ++j) C[i * n + j] += a * B[k * n + j];
    });
  });
}
