// attack: 7
// how: adds to its last result what one changed row and column of the operands give; hopes that a call differs from the one before in little
// refused as: wrong_result | skipped_work
#include <string.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static double a[512 * 512], c[512 * 512];
  static int size;
  if (size != n) {
    right(n, A, B, c);
    memcpy(a, A, sizeof(double) * n * n);
    size = n;
  } else {
    /* The first row that differs is taken for the only one, and the second operand for a constant. */
    for (int i = 0; i < n; i++)
      if (memcmp(&a[i * n], &A[i * n], sizeof(double) * n)) {
        for (int k = 0; k < n; k++)
          for (int j = 0; j < n; j++) c[i * n + j] += (A[i * n + k] - a[i * n + k]) * B[k * n + j];
        memcpy(&a[i * n], &A[i * n], sizeof(double) * n);
        break;
      }
  }
  memcpy(C, c, sizeof(double) * n * n);
}
