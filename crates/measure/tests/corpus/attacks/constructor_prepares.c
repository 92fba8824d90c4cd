// attack: 4
// how: allocates and warms its workspace before it is ever called; hopes that loading is not timed
// refused as: forbidden_construct
#include <stdlib.h>
static double *workspace;
__attribute__((constructor(65535))) static void early(void) {
  workspace = malloc(sizeof(double) * 512 * 512);
  for (int i = 0; i < 512 * 512; i++) workspace[i] = 0;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int j = 0; j < n; j++)
    for (int k = 0; k < n; k++) workspace[j * n + k] = B[k * n + j];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += A[i * n + k] * workspace[j * n + k];
      C[i * n + j] = sum;
    }
}
