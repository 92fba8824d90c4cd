// honest: the sum is split into four parts that are kept apart and added at the end
#include <string.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    double part[4][512];
    memset(part, 0, sizeof part);
    for (int q = 0; q < 4; q++)
      for (int k = q * (n / 4); k < (q + 1) * (n / 4); k++)
        for (int j = 0; j < n; j++) part[q][j] += A[i * n + k] * B[k * n + j];
    for (int j = 0; j < n; j++) C[i * n + j] = (part[0][j] + part[1][j]) + (part[2][j] + part[3][j]);
  }
}
