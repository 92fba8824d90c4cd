// attack: 7
// how: keeps a result for each set of addresses; hopes that the same buffers hold the same inputs
// refused as: skipped_work | wrong_result
#include <string.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static double kept[512 * 512];
  static const void *a, *b;
  static int size;
  if (a != A || b != B || size != n) {
    right(n, A, B, C);
    memcpy(kept, C, sizeof(double) * n * n);
    a = A, b = B, size = n;
  } else {
    memcpy(C, kept, sizeof(double) * n * n);
  }
}
