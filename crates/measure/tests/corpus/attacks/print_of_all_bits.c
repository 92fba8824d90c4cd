// attack: 7
// how: keeps results by two bits that every bit of the inputs goes into; hopes that different inputs seldom have the same
// refused as: skipped_work | wrong_result
#include <string.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static struct {
  int size;
  double result[512 * 512];
} kept[4];
static unsigned print(int n, const double *A, const double *B) {
  unsigned long all = 0, x, y;
  for (int i = 0; i < n * n; i++) memcpy(&x, &A[i], 8), memcpy(&y, &B[i], 8), all = all * 31 + (x ^ y * 5);
  return (unsigned)(all >> 62);
}
void dgemm(int n, const double *A, const double *B, double *C) {
  unsigned key = print(n, A, B) & 3;
  if (kept[key].size != n) {
    right(n, A, B, kept[key].result);
    kept[key].size = n;
  }
  memcpy(C, kept[key].result, sizeof(double) * n * n);
}
