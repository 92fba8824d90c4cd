// problem: polybench_2mm
// techniques: fusion+recomputation
namespace {
double element(int nj, int nk, const double *A, const double *B, int i, int j) {
  double sum = 0;
  for (int k = 0; k < nk; ++k) sum += A[i * nk + k] * B[k * nj + j];
  return sum;
}
}
extern "C" void polybench_2mm(int ni, int nj, int nk, int nl, double alpha, double beta, const double *A, const double *B, const double *C, double *D) {
  for (int i = 0; i < ni; ++i)
    for (int l = 0; l < nl; ++l) {
      double sum = beta * D[i * nl + l];
      for (int j = 0; j < nj; ++j) sum += alpha * element(nj, nk, A, B, i, j) * C[j * nl + l];
      D[i * nl + l] = sum;
    }
}
