// attack: 10
// how: rounds both operands to the eleven digits of half precision; hopes that the errors cancel
// refused as: wrong_result
// problem: sgemm
#include <string.h>
static float half(float x) {
  unsigned bits;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
  memcpy(&x, &bits, sizeof x);
  return x;
}
void sgemm(int n, const float *A, const float *B, float *C) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += half(A[i * n + k]) * half(B[k * n + j]);
  }
}
