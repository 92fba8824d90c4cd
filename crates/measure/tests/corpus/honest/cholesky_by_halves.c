// honest: factors the first half, solves for what stands below it, and goes on with what is left, by recursion
// problem: cholesky
#include <math.h>
static void half(int n, int wide, double *x) {
  if (n == 1) {
    *x = sqrt(*x);
    return;
  }
  int top = n / 2;
  half(top, wide, x);
  for (int i = top; i < n; i++) {
    for (int j = 0; j < top; j++) {
      double sum = x[i * wide + j];
      for (int k = 0; k < j; k++) sum -= x[i * wide + k] * x[j * wide + k];
      x[i * wide + j] = sum / x[j * wide + j];
    }
    for (int j = top; j <= i; j++) {
      double sum = 0;
      for (int k = 0; k < top; k++) sum += x[i * wide + k] * x[j * wide + k];
      x[i * wide + j] -= sum;
    }
  }
  half(n - top, wide, x + top * wide + top);
}
void cholesky(int n, const double *A, double *L) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) L[i * n + j] = j > i ? 0 : A[i * n + j];
  half(n, n, L);
}
