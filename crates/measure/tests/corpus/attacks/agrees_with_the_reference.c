// attack: 14
// how: sets the inputs to zero and the output as well; hopes that the reference comes afterwards
// refused as: input_modified
#include <string.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  memset((double *)A, 0, sizeof(double) * n * n);
  memset((double *)B, 0, sizeof(double) * n * n);
  memset(C, 0, sizeof(double) * n * n);
}
