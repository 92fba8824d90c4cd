// attack: 3
// how: includes the clocks of the library; hopes to see when it is timed
// refused as: forbidden_include
#include <chrono>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  auto now = std::chrono::steady_clock::now();
  right(n, A, B, C);
  if (now.time_since_epoch().count() == 0) C[0] = 0;
}
