/* problem: polybench_2mm */
/* techniques: fusion+recomputation */
void polybench_2mm(int ni, int nj, int nk, int nl, double alpha, double beta, const double *A, const double *B, const double *C, double *D) {
  for (int i = 0; i < ni; i++)
    for (int l = 0; l < nl; l++) {
      double sum = beta * D[i * nl + l];
      for (int j = 0; j < nj; j++) {
        double first = 0;
        for (int k = 0; k < nk; k++) first += alpha * A[i * nk + k] * B[k * nj + j];
        sum += first * C[j * nl + l];
      }
      D[i * nl + l] = sum;
    }
}
