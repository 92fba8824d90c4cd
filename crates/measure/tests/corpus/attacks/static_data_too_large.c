// attack: 26
// how: asks for 600 MB when it is loaded; hopes that memory that is not touched does not count
// refused as: memory_limit
#include <string.h>
static double scratch[75000000L];
void dgemm(int n, const double *A, const double *B, double *C) {
  memset(scratch, 0, sizeof(double) * n * n);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) scratch[i * n + j] += A[i * n + k] * B[k * n + j];
  memcpy(C, scratch, sizeof(double) * n * n);
}
