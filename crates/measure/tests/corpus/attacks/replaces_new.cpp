// attack: 30, 16
// how: defines the allocation of memory for everybody; hopes that the harness calls it
// refused as: forbidden_construct
#include <cstdlib>
void *operator new(std::size_t bytes) { return std::calloc(bytes, 3); }
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  delete[] new double[n];
}
