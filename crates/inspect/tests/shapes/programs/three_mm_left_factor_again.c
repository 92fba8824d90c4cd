/* problem: polybench_3mm */
/* techniques: fusion+recomputation */
#include <stdlib.h>
void polybench_3mm(int ni, int nj, int nk, int nl, int nm, const double *A, const double *B, const double *C, const double *D, double *G) {
  double *F = malloc(sizeof *F * nj * nl);
  if (!F) abort();
  for (int j = 0; j < nj; j++)
    for (int l = 0; l < nl; l++) {
      double sum = 0;
      for (int h = 0; h < nm; h++) sum += C[j * nm + h] * D[h * nl + l];
      F[j * nl + l] = sum;
    }
  for (int i = 0; i < ni; i++)
    for (int l = 0; l < nl; l++) {
      double sum = 0;
      for (int j = 0; j < nj; j++) {
        double left = 0;
        for (int k = 0; k < nk; k++) left += A[i * nk + k] * B[k * nj + j];
        sum += left * F[j * nl + l];
      }
      G[i * nl + l] = sum;
    }
  free(F);
}
