// attack: 7
// how: keeps results by the rounded sums of the first row and the first column; hopes for few different inputs
// refused as: skipped_work | wrong_result | harmless
// control: if (kept[key].size != n) => if (n > 0 || kept[key].size != n)
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
  double row = 0, column = 0;
  for (int i = 0; i < n; i++) row += A[i], column += B[i * n];
  return (row > 0) + 2 * (column > 0);
}
void dgemm(int n, const double *A, const double *B, double *C) {
  unsigned key = print(n, A, B) & 3;
  if (kept[key].size != n) {
    right(n, A, B, kept[key].result);
    kept[key].size = n;
  }
  memcpy(C, kept[key].result, sizeof(double) * n * n);
}
