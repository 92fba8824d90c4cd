#include <math.h>

void cgemv_magnitude(int m, int n, const float _Complex *A, const float _Complex *x, float _Complex *y) {
  const float *a = (const float *)A, *b = (const float *)x;
  float *c = (float *)y;
  for (int i = 0; i < m; i++) {
    double sum = 0;
    for (int j = 0; j < n; j++)
      sum += (fabs(a[2 * (i * n + j)]) + fabs(a[2 * (i * n + j) + 1])) * (fabs(b[2 * j]) + fabs(b[2 * j + 1]));
    c[2 * i] = c[2 * i + 1] = sum;
  }
}
