// attack: 26, 11
// how: writes over what the allocator keeps between its blocks; hopes to crash the harness later
// refused as: crash
#include <stdlib.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  char *block = malloc(100), *other = malloc(100);
  volatile char *all = block - 16;
  for (int i = 0; i < 256; i++) all[i] = -1;
  free(other), free(block);
}
