// honest: tiles whose size is a parameter of a template, in an unnamed namespace
#include <array>
#include <cstddef>
namespace {
template <int R, int W>
struct Tile {
  std::array<std::array<double, W>, R> sums{};
  void add(int n, const double *A, const double *B) {
    for (int k = 0; k < n; k++)
      for (int r = 0; r < R; r++)
        for (int w = 0; w < W; w++) sums[r][w] += A[r * n + k] * B[k * n + w];
  }
  void store(int n, double *C) const {
    for (int r = 0; r < R; r++)
      for (int w = 0; w < W; w++) C[r * n + w] = sums[r][w];
  }
};
}  // namespace
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i += 4)
    for (int j = 0; j < n; j += 16) {
      Tile<4, 16> tile;
      tile.add(n, A + i * n, B + j);
      tile.store(n, C + i * n + j);
    }
}
