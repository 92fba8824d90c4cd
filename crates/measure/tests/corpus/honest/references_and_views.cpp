// honest: references, spans and a matrix as a class with operators, in a namespace
#include <span>
namespace linear {
template <class T>
class Matrix {
 public:
  Matrix(int n, T *data) : n_(n), data_(data) {}
  std::span<T> row(int i) const { return {data_ + static_cast<long>(i) * n_, static_cast<unsigned long>(n_)}; }
  T &operator()(int i, int j) const { return data_[static_cast<long>(i) * n_ + j]; }
  int size() const noexcept { return n_; }

 private:
  int n_;
  T *data_;
};
static void multiply(const Matrix<const double> &a, const Matrix<const double> &b, const Matrix<double> &c) {
  for (int i = 0; i < a.size(); ++i) {
    auto to = c.row(i);
    for (auto &x : to) x = 0;
    for (int k = 0; k < a.size(); ++k) {
      const auto factor = a(i, k);
      const auto from = b.row(k);
      for (std::size_t j = 0; j < to.size(); ++j) to[j] += factor * from[j];
    }
  }
}
}  // namespace linear
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  linear::multiply({n, A}, {n, B}, {n, C});
}
