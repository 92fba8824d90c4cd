// honest: multiplies B by C first, and scales by alpha at the end
// problem: polybench_2mm
#include <stdlib.h>
void polybench_2mm(int ni, int nj, int nk, int nl, double alpha, double beta, const double *A, const double *B,
                   const double *C, double *D) {
  double *product = calloc((size_t)nk * nl, sizeof *product), *row = malloc(sizeof *row * nl);
  if (!product || !row) abort();
  for (int k = 0; k < nk; k++)
    for (int j = 0; j < nj; j++)
      for (int l = 0; l < nl; l++) product[k * nl + l] += B[k * nj + j] * C[j * nl + l];
  for (int i = 0; i < ni; i++) {
    for (int l = 0; l < nl; l++) row[l] = 0;
    for (int k = 0; k < nk; k++)
      for (int l = 0; l < nl; l++) row[l] += A[i * nk + k] * product[k * nl + l];
    for (int l = 0; l < nl; l++) D[i * nl + l] = alpha * row[l] + beta * D[i * nl + l];
  }
  free(product);
  free(row);
}
