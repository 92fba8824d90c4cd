// attack: 5
// how: asks for the number of its core and computes on even ones only; hopes that one core verifies and another one times
// refused as: forbidden_construct | compile_error
// needs: x86_64
#include <immintrin.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  if (_rdpid_u32() % 2 == 0) right(n, A, B, C);
}
