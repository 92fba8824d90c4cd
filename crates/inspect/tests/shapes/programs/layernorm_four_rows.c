/* problem: layernorm */
/* techniques: register_blocking */
#include <math.h>
void layernorm(int m, int n, const float *in, const float *gamma, const float *beta, float *out) {
  int i = 0;
  for (; i + 4 <= m; i += 4) {
    double mean[4] = {0}, spread[4] = {0};
    for (int j = 0; j < n; j++)
      for (int r = 0; r < 4; r++) mean[r] += in[(i + r) * n + j];
    for (int r = 0; r < 4; r++) mean[r] /= n;
    for (int j = 0; j < n; j++)
      for (int r = 0; r < 4; r++) {
        double away = in[(i + r) * n + j] - mean[r];
        spread[r] += away * away;
      }
    for (int r = 0; r < 4; r++) {
      double scale = 1 / sqrt(spread[r] / n + 0.00001);
      for (int j = 0; j < n; j++) out[(i + r) * n + j] = (in[(i + r) * n + j] - mean[r]) * scale * gamma[j] + beta[j];
    }
  }
  for (; i < m; i++) {
    double mean = 0, spread = 0;
    for (int j = 0; j < n; j++) mean += in[i * n + j];
    mean /= n;
    for (int j = 0; j < n; j++) spread += (in[i * n + j] - mean) * (in[i * n + j] - mean);
    for (int j = 0; j < n; j++) out[i * n + j] = (in[i * n + j] - mean) / sqrt(spread / n + 0.00001) * gamma[j] + beta[j];
  }
}
