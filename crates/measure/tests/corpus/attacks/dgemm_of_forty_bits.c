// attack: 10
// how: rounds both operands to forty bits, which three products of shorter numbers hold; hopes for a bound that grows with the length of the sums
// refused as: wrong_result
#include <string.h>
static double shorter(double x) {
  unsigned long long bits;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x1000) & ~0x1fffull;
  memcpy(&x, &bits, sizeof x);
  return x;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += shorter(A[i * n + k]) * shorter(B[k * n + j]);
  }
}
