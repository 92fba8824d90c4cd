// attack: 16
// how: has the library of C++ multiply and add; hopes that the newer of two names is not known
// refused as: forbidden_symbol
// problem: dsyrk
#include <numeric>
extern "C" void dsyrk(int n, int k, const double *A, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) C[i * n + j] = std::transform_reduce(A + i * k, A + i * k + k, A + j * k, 0.0);
}
