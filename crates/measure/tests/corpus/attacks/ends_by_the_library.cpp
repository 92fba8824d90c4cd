// attack: 26
// how: asks for an element behind the end of an array that checks it; hopes that somebody catches what is thrown
// refused as: crash
#include <array>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  std::array<double, 4> a{};
  right(n, A, B, C);
  C[0] += a.at(n);
}
