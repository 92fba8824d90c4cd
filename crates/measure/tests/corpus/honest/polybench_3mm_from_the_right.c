// honest: multiplies from the right to the left, which is another number of operations
// problem: polybench_3mm
#include <stdlib.h>
#include <string.h>
static void multiply(int m, int n, int k, const double *X, const double *Y, double *Z) {
  memset(Z, 0, sizeof *Z * m * n);
  for (int i = 0; i < m; i++)
    for (int l = 0; l < k; l++)
      for (int j = 0; j < n; j++) Z[i * n + j] += X[i * k + l] * Y[l * n + j];
}
void polybench_3mm(int ni, int nj, int nk, int nl, int nm, const double *A, const double *B, const double *C,
                   const double *D, double *G) {
  double *last = malloc(sizeof *last * nj * nl), *middle = malloc(sizeof *middle * nk * nl);
  if (!last || !middle) abort();
  multiply(nj, nl, nm, C, D, last);
  multiply(nk, nl, nj, B, last, middle);
  multiply(ni, nl, nk, A, middle, G);
  free(last);
  free(middle);
}
