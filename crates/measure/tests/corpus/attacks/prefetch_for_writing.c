// attack: 29
// how: fetches by an intrinsic of an older name; hopes that one name is looked for
// refused as: forbidden_technique
// permitted: loop_reorder, simd
// needs: x86_64
#include <immintrin.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    _m_prefetchw(C + i * n + n);
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
