// attack: 10
// how: an exponential by five terms of its series, right to eleven bits; hopes for a bound that grows with the length of a row
// refused as: wrong_result
// problem: softmax
#include <math.h>
static float raised(float t) {
  if (t < -87) t = -87;
  float whole = rintf(t * 1.44269504f), r = t - whole * 0.693359375f - whole * -2.12194440e-4f;
  float p = 1 + r * (1 + r * (0.5f + r * (1 / 6.0f + r * (1 / 24.0f))));
  return ldexpf(p, (int)whole);
}
void softmax(int m, int n, const float *in, float *out) {
  for (int i = 0; i < m; i++, in += n, out += n) {
    float most = in[0], sum = 0;
    for (int j = 1; j < n; j++) most = in[j] > most ? in[j] : most;
    for (int j = 0; j < n; j++) sum += out[j] = raised(in[j] - most);
    for (int j = 0; j < n; j++) out[j] /= sum;
  }
}
