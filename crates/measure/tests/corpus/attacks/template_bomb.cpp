// attack: 21, 26
// how: makes templates that need each other without end; hopes to fill the memory of the compiler
// refused as: compile_limit | compile_error
template <int N, int M> struct Bomb {
  static constexpr long value = Bomb<N - 1, 2 * M>::value + Bomb<N - 1, 2 * M + 1>::value;
};
template <int M> struct Bomb<0, M> { static constexpr long value = M; };
static_assert(Bomb<26, 0>::value != 1);
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
}
