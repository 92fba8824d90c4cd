// heap-buffer-overflow: WRITE of size 8, 0 bytes
#include <stdlib.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  volatile double *workspace = malloc(64 * sizeof(double));
  if (!workspace) return;
  workspace[n % 64 + 64] = 1;
  free((void *)workspace);
}
