// attack: 20, 17
// how: writes assembly in a lambda of a template; hopes that nobody looks there
// refused as: forbidden_construct
template <class F> static inline void twice(F f) { f(); f(); }
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  twice([] { __asm__ __volatile__("pause"); });
  right(n, A, B, C);
}
