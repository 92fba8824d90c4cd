// attack: 8
// how: leaves one element unwritten, another one each time; hopes that checks sample
// refused as: wrong_result
#include <string.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static unsigned calls;
  unsigned at = (calls++ * 2654435761u) % (unsigned)(n * n);
  double before;
  memcpy(&before, &C[at], 8);
  right(n, A, B, C);
  memcpy(&C[at], &before, 8);
}
