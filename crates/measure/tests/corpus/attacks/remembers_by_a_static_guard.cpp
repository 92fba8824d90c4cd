// attack: 7
// how: keeps the first result in a static variable behind a guard; hopes for the same inputs
// refused as: wrong_result
#include <cstdlib>
#include <cstring>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  static double *kept = [&] {
    double *p = static_cast<double *>(std::malloc(512 * 512 * sizeof(double)));
    right(n, A, B, p);
    return p;
  }();
  std::memcpy(C, kept, sizeof(double) * n * n);
}
