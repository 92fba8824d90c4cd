/* problem: polybench_2mm */
/* techniques: loop_reorder+packing */
#include <stdlib.h>
void polybench_2mm(int ni, int nj, int nk, int nl, double alpha, double beta, const double *A, const double *B,
                   const double *C, double *D) {
  double *tmp = malloc(sizeof(*tmp) * ni * nj), *column = malloc(sizeof(*column) * nj);
  if (!tmp || !column) abort();
  for (int i = 0; i < ni; i++)
    for (int j = 0; j < nj; j++) {
      tmp[i * nj + j] = 0;
      for (int k = 0; k < nk; k++) tmp[i * nj + j] += alpha * A[i * nk + k] * B[k * nj + j];
    }
  for (int j = 0; j < nl; j++) {
    for (int k = 0; k < nj; k++) column[k] = C[k * nl + j];
    for (int i = 0; i < ni; i++) {
      D[i * nl + j] *= beta;
      for (int k = 0; k < nj; k++) D[i * nl + j] += tmp[i * nj + k] * column[k];
    }
  }
  free(tmp);
  free(column);
}
