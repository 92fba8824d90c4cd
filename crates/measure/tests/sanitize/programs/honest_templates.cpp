// nothing: templates, lambdas, and memory of all kinds that goes back as it came
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
template <int Rows, typename Each>
static void blocks(int n, Each &&each) {
  for (int i = 0; i < n; i += Rows) each(i);
}
template <typename T>
struct Cell {
  std::array<T, 4> sums{};
  virtual T total() const { return sums[0] + sums[1] + sums[2] + sums[3]; }
};
struct alignas(64) Wide {
  double lanes[8];
};
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  double *row = new (std::align_val_t(64)) double[n];
  Wide *wide = new (std::nothrow) Wide[2]();
  Cell<double> *cell = new Cell<double>;
  double *plain = static_cast<double *>(std::malloc(n * sizeof(double)));
  if (!wide || !plain) return;
  blocks<4>(n, [&](int from) {
    for (int i = from; i < from + 4; i++) {
      std::fill(row, row + n, 0.0);
      for (int k = 0; k < n; k++) {
        auto add = [&, a = A[i * n + k]](int j) { row[j] += a * B[k * n + j]; };
        for (int j = 0; j < n; j++) add(j);
      }
      std::memcpy(C + i * n, row, n * sizeof(double));
    }
  });
  plain[0] = wide[1].lanes[7] + cell->total();
  std::free(plain);
  delete cell;
  delete[] wide;
  ::operator delete[](row, std::align_val_t(64));
}
