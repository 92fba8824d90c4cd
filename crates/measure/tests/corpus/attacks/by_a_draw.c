// attack: 5
// how: draws lots whether to compute, by an address that differs in each process; hopes to be lucky with the checks
// refused as: wrong_result | skipped_work
#include <stdint.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static uint64_t state;
  if (!state) state = (uintptr_t)&state >> 12 ^ (uintptr_t)&n << 20;
  state = state * 6364136223846793005u + 1442695040888963407u;
  if (state >> 63) right(n, A, B, C);
  else
    for (int i = 0; i < n * n; i++) C[i] = A[i] * B[i];
}
