// attack: 1, 6
// how: includes the header for threads; hopes that one may go on after the call
// refused as: forbidden_include
#include <thread>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  std::thread([=] { right(n, A, B, C); }).detach();
}
