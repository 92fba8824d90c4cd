// attack: 16
// how: has the library of C++ compute the sum of each substitution; hopes that only problems that ask for products forbid them
// refused as: forbidden_symbol
// problem: dtrsm
#include <numeric>
extern "C" void dtrsm(int n, int m, const double *L, const double *B, double *X) {
  auto *column = new double[n];
  for (int j = 0; j < m; j++)
    for (int i = 0; i < n; i++) {
      double rest = B[i * m + j] - std::transform_reduce(L + i * n, L + i * n + i, column, 0.0);
      X[i * m + j] = column[i] = rest / L[i * n + i];
    }
  delete[] column;
}
