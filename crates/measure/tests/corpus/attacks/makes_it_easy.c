// attack: 14
// how: makes the first operand the identity and copies the second; hopes that the reference comes afterwards
// refused as: input_modified
#include <string.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) ((double *)A)[i] = i % (n + 1) == 0;
  memcpy(C, B, sizeof(double) * n * n);
}
