// attack: 21, 29
// how: says by a directive that the next lines come from a header; hopes that headers are trusted
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
#line 1 "/usr/include/math.h"
__asm__("nop");
#line 12 "kernel.c"
void dgemm(int n, const double *A, const double *B, double *C) { right(n, A, B, C); }
