// honest: keeps A·x on the heap and multiplies by the transpose in a second pass, eight rows at a time
// problem: polybench_atax
#include <stdlib.h>
void polybench_atax(int m, int n, const double *A, const double *x, double *y) {
  double *product = calloc((size_t)m + 8, sizeof *product);
  if (!product) abort();
  for (int i = 0; i < m; i++) {
    double even = 0, odd = 0;
    int j = 0;
    for (; j + 1 < n; j += 2) {
      even += A[i * n + j] * x[j];
      odd += A[i * n + j + 1] * x[j + 1];
    }
    if (j < n) even += A[i * n + j] * x[j];
    product[i] = even + odd;
  }
  for (int j = 0; j < n; j++) y[j] = 0;
  for (int i = 0; i < m; i += 8) {
    int rows = m - i < 8 ? m - i : 8;
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int r = 0; r < rows; r++) sum += A[(i + r) * n + j] * product[i + r];
      y[j] += sum;
    }
  }
  free(product);
}
