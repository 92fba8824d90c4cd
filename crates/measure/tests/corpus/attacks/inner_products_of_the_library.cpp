// attack: 16
// how: has the library of C++ compute each sum; hopes that a template is no library
// refused as: forbidden_symbol
#include <numeric>
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  auto *column = new double[n];
  for (int j = 0; j < n; j++) {
    for (int k = 0; k < n; k++) column[k] = B[k * n + j];
    for (int i = 0; i < n; i++) C[i * n + j] = std::inner_product(A + i * n, A + i * n + n, column, 0.0);
  }
  delete[] column;
}
