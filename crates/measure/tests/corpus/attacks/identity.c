// attack: 8
// how: copies an operand; hopes for a comparison of shapes
// refused as: wrong_result
#include <string.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  memcpy(C, A, sizeof(double) * n * n);
  C[0] += B[0];
}
