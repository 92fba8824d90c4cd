// attack: 10
// how: cuts the inputs to eight bits of mantissa; hopes for a wide tolerance
// refused as: wrong_result
#include <stdlib.h>
#include <string.h>
static double cut(double x) {
  unsigned long bits;
  memcpy(&bits, &x, 8);
  bits &= 0xfffff00000000000;
  memcpy(&x, &bits, 8);
  return x;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  double *b = malloc(sizeof(double) * n * n);
  for (int i = 0; i < n * n; i++) b[i] = cut(B[i]), C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) {
      double a = cut(A[i * n + k]);
      for (int j = 0; j < n; j++) C[i * n + j] += a * b[k * n + j];
    }
  free(b);
}
