// attack: 21
// how: computes while it is compiled; hopes that the compiler has time without end
// refused as: compile_limit | compile_error
constexpr unsigned long long spin(unsigned long long n) {
  unsigned long long x = 1;
  for (unsigned long long i = 0; i < n; i++) x = x * 6364136223846793005u + i;
  return x;
}
template <int N> struct Slow { static constexpr unsigned long long value = spin(200000 + N) + Slow<N - 1>::value; };
template <> struct Slow<0> { static constexpr unsigned long long value = 0; };
static_assert(Slow<800>::value != 1);
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
}
