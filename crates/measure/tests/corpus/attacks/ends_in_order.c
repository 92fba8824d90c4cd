// attack: 26, 22
// how: ends its process in order by one of the library's lesser known ways; hopes that exit code zero is a pass
// refused as: forbidden_symbol
#include <stdlib.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  C[0] = A[0] * B[0] * n;
  quick_exit(0);
}
