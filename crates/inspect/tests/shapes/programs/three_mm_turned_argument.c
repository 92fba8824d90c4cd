/* problem: polybench_3mm */
/* techniques: packing+layout_change */
#include <stdlib.h>
static void product(int m, int n, int k, const double *X, const double *Y, double *Z) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int l = 0; l < k; l++) sum += X[i * k + l] * Y[l * n + j];
      Z[i * n + j] = sum;
    }
}
void polybench_3mm(int ni, int nj, int nk, int nl, int nm, const double *A, const double *B, const double *C, const double *D, double *G) {
  double *E = malloc(sizeof *E * ni * nj), *F = malloc(sizeof *F * nj * nl), *turned = malloc(sizeof *turned * nm * nl);
  if (!E || !F || !turned) abort();
  for (int h = 0; h < nm; h++)
    for (int l = 0; l < nl; l++) turned[l * nm + h] = D[h * nl + l];
  product(ni, nj, nk, A, B, E);
  for (int j = 0; j < nj; j++)
    for (int l = 0; l < nl; l++) {
      double sum = 0;
      for (int h = 0; h < nm; h++) sum += C[j * nm + h] * turned[l * nm + h];
      F[j * nl + l] = sum;
    }
  product(ni, nl, nj, E, F, G);
  free(E), free(F), free(turned);
}
