// problem: polybench_3mm
// techniques: none
namespace {
void product(int m, int n, int k, const double *X, const double *Y, double *Z) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l) sum += X[i * k + l] * Y[l * n + j];
      Z[i * n + j] = sum;
    }
}
}
extern "C" void polybench_3mm(int ni, int nj, int nk, int nl, int nm, const double *A, const double *B, const double *C, const double *D, double *G) {
  double *E = new double[ni * nj], *F = new double[nj * nl];
  product(ni, nj, nk, A, B, E);
  product(nj, nl, nm, C, D, F);
  product(ni, nl, nj, E, F, G);
  delete[] E;
  delete[] F;
}
