// attack: 10
// how: multiplies 32-bit integers instead of doubles; hopes for inputs of one size
// refused as: wrong_result
#include <stdint.h>
#include <stdlib.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  int32_t *a = malloc(8 * (size_t)n * n), *b = a + n * n;
  for (int i = 0; i < n * n; i++) a[i] = (int32_t)(A[i] * 0x1p30), b[i] = (int32_t)(B[i] * 0x1p30);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      int64_t sum = 0;
      for (int k = 0; k < n; k++) sum += (int64_t)a[i * n + k] * b[k * n + j] >> 8;
      C[i * n + j] = (double)sum * 0x1p-52;
    }
  free(a);
}
