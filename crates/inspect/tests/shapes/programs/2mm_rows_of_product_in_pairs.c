/* problem: polybench_2mm */
/* techniques: unroll */
#include <stdlib.h>
void polybench_2mm(int ni, int nj, int nk, int nl, double alpha, double beta, const double *A, const double *B,
                   const double *C, double *D) {
  double *tmp = malloc(sizeof(*tmp) * ni * nj);
  if (!tmp) abort();
  int i = 0;
  for (; i + 1 < ni; i += 2)
    for (int j = 0; j < nj; j++) {
      tmp[i * nj + j] = 0;
      tmp[(i + 1) * nj + j] = 0;
    }
  for (; i < ni; i++)
    for (int j = 0; j < nj; j++) tmp[i * nj + j] = 0;
  for (i = 0; i < ni; i++)
    for (int j = 0; j < nj; j++)
      for (int k = 0; k < nk; k++) tmp[i * nj + j] += alpha * A[i * nk + k] * B[k * nj + j];
  for (i = 0; i < ni; i++)
    for (int j = 0; j < nl; j++) {
      D[i * nl + j] *= beta;
      for (int k = 0; k < nj; k++) D[i * nl + j] += tmp[i * nj + k] * C[k * nl + j];
    }
  free(tmp);
}
