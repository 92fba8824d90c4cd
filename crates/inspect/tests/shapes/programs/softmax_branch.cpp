// problem: softmax
// techniques: none
#include <cmath>
extern "C" void softmax(int m, int n, const float *in, float *out) {
  auto greatest = [n](const float *x) {
    float most = x[0];
    for (int j = 1; j < n; ++j) {
      if (x[j] > most) most = x[j];
    }
    return most;
  };
  for (int i = 0; i < m; ++i) {
    const float most = greatest(in + i * n);
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += std::exp(in[i * n + j] - most);
    for (int j = 0; j < n; ++j) out[i * n + j] = std::exp(in[i * n + j] - most) / sum;
  }
}
