// attack: 29
// how: a macro pastes the name of the intrinsic together; hopes that the text before the preprocessor is looked at
// refused as: forbidden_technique
// permitted: loop_reorder, unroll, simd
// problem: dgemv
// needs: x86_64
#include <immintrin.h>
#define WORD(a, b) a##b
#define LOOK WORD(_m_pre, fetchw)
void dgemv(int m, int n, const double *A, const double *x, double *y) {
  for (int i = 0; i < m; i++) {
    double sum = 0;
    for (int j = 0; j < n; j++) {
      if (j % 8 == 0) LOOK((void *)(A + i * n + j + 256));
      sum += A[i * n + j] * x[j];
    }
    y[i] = sum;
  }
}
