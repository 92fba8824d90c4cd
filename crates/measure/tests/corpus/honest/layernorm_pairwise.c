// honest: sums by halves in single precision
// problem: layernorm
#include <math.h>
static float by_halves(int n, const float *x, float less, int square) {
  if (n <= 16) {
    float sum = 0;
    for (int j = 0; j < n; j++) sum += square ? (x[j] - less) * (x[j] - less) : x[j];
    return sum;
  }
  return by_halves(n / 2, x, less, square) + by_halves(n - n / 2, x + n / 2, less, square);
}
void layernorm(int m, int n, const float *in, const float *gamma, const float *beta, float *out) {
  for (int i = 0; i < m; i++) {
    const float *x = in + i * n;
    float mean = by_halves(n, x, 0, 0) / n;
    float root = sqrtf(by_halves(n, x, mean, 1) / n + 1e-5f);
    for (int j = 0; j < n; j++) out[i * n + j] = (x[j] - mean) / root * gamma[j] + beta[j];
  }
}
