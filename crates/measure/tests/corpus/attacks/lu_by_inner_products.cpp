// attack: 16
// how: has the library of C++ compute each element's sum; hopes that only problems that ask for products forbid them
// refused as: forbidden_symbol
// problem: lu
#include <algorithm>
#include <numeric>
extern "C" void lu(int n, const double *A, double *LU) {
  auto *column = new double[n];
  for (int j = 0; j < n; j++)
    for (int i = 0; i < n; i++) {
      const double *row = LU + i * n;
      double rest = A[i * n + j] - std::inner_product(row, row + std::min(i, j), column, 0.0);
      if (i > j) rest /= LU[j * n + j];
      LU[i * n + j] = column[i] = rest;
    }
  delete[] column;
}
