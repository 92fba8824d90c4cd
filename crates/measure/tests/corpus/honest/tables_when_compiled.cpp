// honest: a table that the compiler computes, with marks between digits
#include <array>
#include <cstdint>
constexpr int limit = 1'000;
constexpr std::array<std::uint16_t, 8> steps = [] {
  std::array<std::uint16_t, 8> table{};
  for (int i = 0; i < 8; i++) table[i] = static_cast<std::uint16_t>(i * limit / 1'000);
  return table;
}();
static_assert(steps[7] == 7);
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k += 8)
      for (auto s : steps)
        for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k + s] * B[(k + s) * n + j];
}
