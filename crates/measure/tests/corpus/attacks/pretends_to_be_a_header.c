// attack: 21, 29
// how: says that the next lines come from a system header; hopes that headers are trusted
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
# 1 "/usr/include/math.h" 1 3 4
__asm__("nop");
# 12 "kernel.c" 2
void dgemm(int n, const double *A, const double *B, double *C) { right(n, A, B, C); }
