// honest: prefetches by intrinsic and by built-in, some beyond the end
// needs: x86_64
#include <immintrin.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    _mm_prefetch((const char *)&A[(i + 1) * n], _MM_HINT_T0);
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++) {
      __builtin_prefetch(&B[(k + 3) * n], 0, 2);
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    }
  }
}
