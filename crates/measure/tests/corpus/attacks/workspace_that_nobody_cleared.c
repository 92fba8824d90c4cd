// attack: 11
// how: adds to workspace that it never sets to zero; hopes that fresh memory is always empty
// refused as: wrong_result | nondeterministic
#include <stdlib.h>
#include <string.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  double *sums = malloc(sizeof *sums * n * n);
  if (!sums) abort();
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) sums[i * n + j] += A[i * n + k] * B[k * n + j];
  memcpy(C, sums, sizeof *sums * n * n);
  free(sums);
}
