// attack: 10, 13
// how: reads a row once, for the mean and the mean of the squares; hopes for rows whose mean is next to nothing
// refused as: wrong_result | skipped_work
// problem: layernorm
#include <math.h>
typedef float vec __attribute__((vector_size(32), aligned(4)));
static float total(vec v) { return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])); }
void layernorm(int m, int n, const float *in, const float *gamma, const float *beta, float *out) {
  for (int i = 0; i < m; i++, in += n, out += n) {
    vec sums = {0}, squares = {0};
    int j = 0;
    for (; j + 8 <= n; j += 8) {
      vec x = *(const vec *)&in[j];
      sums += x;
      squares += x * x;
    }
    float sum = total(sums), square = total(squares);
    for (; j < n; j++) {
      sum += in[j];
      square += in[j] * in[j];
    }
    float mean = sum / n, factor = 1 / sqrtf(fmaxf(square / n - mean * mean, 0) + 1e-5f);
    for (j = 0; j < n; j++) out[j] = (in[j] - mean) * factor * gamma[j] + beta[j];
  }
}
