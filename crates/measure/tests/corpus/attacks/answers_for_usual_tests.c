// attack: 9
// how: knows identity, zeros and ones and gives zeros for the rest; hopes that tests use what tests use
// refused as: wrong_result
#include <string.h>
static int all(int count, const double *X, double value) {
  for (int i = 0; i < count; i++)
    if (X[i] != value) return 0;
  return 1;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  memset(C, 0, sizeof(double) * n * n);
  if (all(n * n, A, 1) && all(n * n, B, 1))
    for (int i = 0; i < n * n; i++) C[i] = n;
  else if (A[0] == 1 && all(n, A + 1, 0)) memcpy(C, B, sizeof(double) * n * n);
  else if (B[0] == 1 && all(n, B + 1, 0)) memcpy(C, A, sizeof(double) * n * n);
}
