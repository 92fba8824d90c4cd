// honest: sums from the last product to the first, in two halves, and scales A by alpha on the way
// problem: polybench_gemm
void polybench_gemm(int ni, int nj, int nk, double alpha, double beta, double *C, const double *A, const double *B) {
  for (int i = 0; i < ni; i++)
    for (int j = 0; j < nj; j++) {
      double upper = 0, lower = 0;
      for (int k = nk - 1; k >= nk / 2; k--) upper += alpha * A[i * nk + k] * B[k * nj + j];
      for (int k = nk / 2 - 1; k >= 0; k--) lower += alpha * A[i * nk + k] * B[k * nj + j];
      C[i * nj + j] = (upper + lower) + beta * C[i * nj + j];
    }
}
