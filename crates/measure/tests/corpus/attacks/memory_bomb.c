// attack: 26
// how: takes memory until there is none; hopes to bring down its neighbours
// refused as: memory_limit | crash
#include <stdlib.h>
#include <string.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  for (;;) memset(malloc(1 << 20), 1, 1 << 20);
}
