// honest: mean and variance of a row by Welford's recurrence in double precision, by a nested function
// needs: gcc
// problem: layernorm
#include <math.h>
void layernorm(int m, int n, const float *in, const float *gamma, const float *beta, float *out) {
  double mean, scale;
  void moments(const float *x) {
    double squares = mean = 0;
    for (int j = 0; j < n; j++) {
      double off = x[j] - mean;
      mean += off / (j + 1);
      squares += off * (x[j] - mean);
    }
    scale = 1 / sqrt(squares / n + 0.00001);
  }
  for (int i = 0; i < m; i++, in += n, out += n) {
    moments(in);
    for (int j = 0; j < n; j++) out[j] = (float)((in[j] - mean) * scale) * gamma[j] + beta[j];
  }
}
