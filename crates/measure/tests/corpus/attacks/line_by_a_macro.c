// attack: 21, 29
// how: names a header by a macro in a directive; hopes that it is read as a plain one
// refused as: forbidden_construct
#define HEADER 1 "/usr/include/math.h"
#line HEADER
static inline void hidden(void) { __asm__("nop"); }
void dgemm(int n, const double *A, const double *B, double *C) {
  hidden();
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
