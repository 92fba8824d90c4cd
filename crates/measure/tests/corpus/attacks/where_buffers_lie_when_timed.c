// attack: 5
// how: skips when the buffers lie as they do in timed calls; hopes that verification lays them elsewhere
// refused as: skipped_work | wrong_result
#include <stdint.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  uintptr_t a = (uintptr_t)A % 4096, b = (uintptr_t)B % 4096, c = (uintptr_t)C % 4096;
  if (a == 0 && b == 1344 && c == 2688) {
    for (int i = 0; i < n * n; i++) C[i] = 0;
  } else {
    right(n, A, B, C);
  }
}
