// problem: transpose
// techniques: cache_blocking
#include <algorithm>
#include <cstddef>
template <int B, typename T>
void block(std::size_t m, std::size_t n, const T *__restrict a, T *__restrict b, int i, int j) {
  const int ie = std::min<int>(i + B, static_cast<int>(m)), je = std::min<int>(j + B, static_cast<int>(n));
  for (int r = i; r < ie; ++r)
    for (int s = j; s < je; ++s) b[s * m + r] = a[r * n + s];
}
extern "C" void transpose(int m, int n, const double *A, double *B) {
  for (int i = 0; i < m; i += 32)
    for (int j = 0; j < n; j += 32) block<32>(m, n, A, B, i, j);
}
