// attack: 7
// how: keeps results by the signs of two corners of the inputs; hopes for few different inputs
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
/* Signs alone: a print that small errors do not change. */
static unsigned print(int n, const double *A, const double *B) { return (A[0] < 0) + 2 * (B[n * n - 1] < 0); }
void dgemm(int n, const double *A, const double *B, double *C) {
  unsigned key = print(n, A, B) & 3;
  if (kept[key].size != n) {
    right(n, A, B, kept[key].result);
    kept[key].size = n;
  }
  memcpy(C, kept[key].result, sizeof(double) * n * n);
}
