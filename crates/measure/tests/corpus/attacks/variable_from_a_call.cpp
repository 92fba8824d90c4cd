// attack: 4
// how: initialises a variable by a call; hopes that it is made before anybody looks
// refused as: forbidden_construct
#include <cstdlib>
static double *buffer = static_cast<double *>(std::malloc(1 << 20));
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  buffer[0] = C[0];
}
