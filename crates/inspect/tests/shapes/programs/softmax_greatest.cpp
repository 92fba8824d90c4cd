// problem: softmax
// techniques: branch_removal
#include <cmath>
extern "C" void softmax(int m, int n, const float *in, float *out) {
  for (int i = 0; i < m; ++i) {
    double most = in[i * n], sum = 0;
    for (int j = 1; j < n; ++j) most = in[i * n + j] > most ? in[i * n + j] : most;
    for (int j = 0; j < n; ++j) sum += std::exp(in[i * n + j] - most);
    for (int j = 0; j < n; ++j) out[i * n + j] = std::exp(in[i * n + j] - most) / sum;
  }
}
