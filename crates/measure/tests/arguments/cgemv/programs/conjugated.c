// verified: wrong_result
#include <complex.h>

void cgemv(int m, int n, const float _Complex *A, const float _Complex *x, float _Complex *y) {
  for (int i = 0; i < m; i++) {
    float _Complex sum = 0;
    for (int j = 0; j < n; j++) sum += conjf(A[i * n + j]) * x[j];
    y[i] = sum;
  }
}
