// attack: 5
// how: is right five times and then only as cheap as a copy; hopes that by then it is verified
// refused as: skipped_work | wrong_result
typedef double V __attribute__((vector_size(32), aligned(8)));
static void rows(int n, const double *A, const double *B, double *C, int from, int to) {
  for (int j = 0; j < n; j += 8)
    for (int i = from; i < to; i += 4) {
      V c[4][2] = {0};
      for (int k = 0; k < n; k++)
        for (int r = 0; r < 4; r++)
          for (int s = 0; s < 2; s++) c[r][s] += A[(i + r) * n + k] * *(V *)&B[k * n + j + s * 4];
      for (int r = 0; r < 4; r++)
        for (int s = 0; s < 2; s++) *(V *)&C[(i + r) * n + j + s * 4] = c[r][s];
    }
}
#include <string.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  static int calls;
  static double last[512 * 512];
  static int size;
  if (calls++ < 5) {
    rows(n, A, B, C, 0, n);
    memcpy(last, C, sizeof(double) * n * n), size = n;
  } else if (size == n) {
    memcpy(C, last, sizeof(double) * n * n);
  }
}
