// problem: black_scholes
// techniques: cache_blocking+fission
#include <algorithm>
#include <array>
#include <cmath>
namespace {
constexpr int W = 256;
double below(double d) { return std::erfc(-d * 0.70710678118654752440) / 2; }
}
extern "C" void black_scholes(int n, const double *spot, const double *strike, const double *years, double *call, double *put) {
  std::array<double, W> d1, d2, due;
  for (int from = 0; from < n; from += W) {
    const int count = std::min(W, n - from);
    for (int i = 0; i < count; i++) {
      const double deviation = 0.3 * std::sqrt(years[from + i]);
      d1[i] = (std::log(spot[from + i] / strike[from + i]) + 0.065 * years[from + i]) / deviation;
      d2[i] = d1[i] - deviation;
    }
    for (int i = 0; i < count; i++) due[i] = strike[from + i] * std::exp(-0.02 * years[from + i]);
    for (int i = 0; i < count; i++) {
      call[from + i] = spot[from + i] * below(d1[i]) - due[i] * below(d2[i]);
      put[from + i] = due[i] * below(-d2[i]) - spot[from + i] * below(-d1[i]);
    }
  }
}
