// attack: 10, 24
// how: switches denormal numbers off; hopes that it is a matter of speed only
// refused as: forbidden_construct
// needs: x86_64
#include <immintrin.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  _mm_setcsr(_mm_getcsr() | 0x8040);
  right(n, A, B, C);
}
