/* problem: polybench_2mm */
/* techniques: loop_reorder+fusion */
void polybench_2mm(int ni, int nj, int nk, int nl, double alpha, double beta, const double *A, const double *B, const double *C, double *D) {
  for (int i = 0; i < ni; i++) {
    for (int l = 0; l < nl; l++) D[i * nl + l] *= beta;
    for (int j = 0; j < nj; j++) {
      double first = 0;
      for (int k = 0; k < nk; k++) first += alpha * A[i * nk + k] * B[k * nj + j];
      for (int l = 0; l < nl; l++) D[i * nl + l] += first * C[j * nl + l];
    }
  }
}
