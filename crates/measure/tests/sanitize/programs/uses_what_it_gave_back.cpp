// heap-use-after-free: READ of size 8
#include <utility>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
class Row {
 public:
  explicit Row(int n) : data_(new double[n]()) {}
  ~Row() { delete[] data_; }
  Row(Row &&other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  const volatile double *begin() const { return data_; }

 private:
  double *data_;
};
static const volatile double *first(Row row) { return row.begin(); }
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  const volatile double *kept = first(Row(n));
  volatile double seen = *kept;
  (void)seen;
}
