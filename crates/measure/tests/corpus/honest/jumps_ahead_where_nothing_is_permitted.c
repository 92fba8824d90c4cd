// honest: jumps out of loops and to its end, where no technique is permitted
// permitted: none
#include <stdlib.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  double *sum = malloc(sizeof *sum);
  if (!sum) goto failed;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      *sum = 0;
      for (int k = 0;; k++) {
        if (k == n) goto done;
        *sum += A[i * n + k] * B[k * n + j];
      }
    done:
      switch (n & 1) {
        case 0: C[i * n + j] = *sum; break;
        default: C[i * n + j] = *sum; break;
      }
    }
  free(sum);
  return;
failed:
  abort();
}
