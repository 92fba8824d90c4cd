/* problem: polybench_gemm */
/* techniques: unroll */
void polybench_gemm(int ni, int nj, int nk, double alpha, double beta, double *C, const double *A, const double *B) {
  int i = 0;
  for (; i + 1 < ni; i += 2)
    for (int j = 0; j < nj; j++) {
      C[i * nj + j] *= beta;
      C[(i + 1) * nj + j] *= beta;
    }
  for (; i < ni; i++)
    for (int j = 0; j < nj; j++) C[i * nj + j] *= beta;
  for (i = 0; i < ni; i++)
    for (int k = 0; k < nk; k++)
      for (int j = 0; j < nj; j++) C[i * nj + j] += alpha * A[i * nk + k] * B[k * nj + j];
}
