// loop_reorder+cache_blocking
#include <string.h>
#include <stddef.h>
#define BLOCK 64
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define AT(M, r, c) M[(size_t)(r) * n + (c)]
void dgemm(int n, const double *A, const double *B, double *C) {
  memset(C, 0, sizeof(double) * n * n);
  for (int ii = 0; ii < n; ii += BLOCK)
    for (int kk = 0; kk < n; kk += BLOCK)
      for (int jj = 0; jj < n; jj += BLOCK)
        for (int i = ii; i < MIN(ii + BLOCK, n); i++)
          for (int k = kk; k < MIN(kk + BLOCK, n); k++) {
            const double a = AT(A, i, k);
            for (int j = jj; j < MIN(jj + BLOCK, n); j++) AT(C, i, j) += a * AT(B, k, j);
          }
}
