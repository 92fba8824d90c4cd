// attack: 29
// how: uses a vector type that the headers keep for themselves; hopes that only their public names are known
// refused as: forbidden_technique
// permitted: loop_reorder, unroll
// problem: sgemm
// needs: x86_64
#include <immintrin.h>
typedef __v16sf row;
void sgemm(int n, const float *A, const float *B, float *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j += 16) {
      row sum = {0}, b;
      for (int k = 0; k < n; k++) {
        __builtin_memcpy(&b, B + k * n + j, sizeof b);
        sum += A[i * n + k] * b;
      }
      __builtin_memcpy(C + i * n + j, &sum, sizeof sum);
    }
}
