// honest: a buffer that frees itself, from `new` with an alignment, and one from `malloc`
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
class Buffer {
 public:
  explicit Buffer(std::size_t n) : data_(new (std::align_val_t(64)) double[n]) {}
  ~Buffer() { ::operator delete[](data_, std::align_val_t(64)); }
  Buffer(Buffer &&other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  double *get() const { return data_; }

 private:
  double *data_;
};
static Buffer make(int n) { return Buffer(n); }
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  Buffer row = make(n);
  double *other = new (std::nothrow) double[4];
  for (int i = 0; i < n; i++) {
    std::memset(row.get(), 0, n * sizeof(double));
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) row.get()[j] += A[i * n + k] * B[k * n + j];
    std::memcpy(C + i * n, row.get(), n * sizeof(double));
  }
  delete[] other;
}
