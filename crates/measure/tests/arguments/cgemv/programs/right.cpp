// right
#include <complex>

extern "C" void cgemv(int m, int n, const float _Complex *A, const float _Complex *x, float _Complex *y) {
  auto a = reinterpret_cast<const std::complex<float> *>(A), b = reinterpret_cast<const std::complex<float> *>(x);
  auto c = reinterpret_cast<std::complex<float> *>(y);
  for (int i = 0; i < m; i++) {
    std::complex<float> sum = 0;
    for (int j = 0; j < n; j++) sum += a[i * n + j] * b[j];
    c[i] = sum;
  }
}
