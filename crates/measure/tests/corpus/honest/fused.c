// honest: products and sums are rounded once, by the mathematics library's function
#include <math.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] = fabs(copysign(0.0, A[i * n]));
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] = fma(A[i * n + k], B[k * n + j], C[i * n + j]);
  }
}
