// honest: the sum is scaled whenever a larger number turns up, so that a row is read once before it is written
// problem: softmax
#include <math.h>
void softmax(int m, int n, const float *in, float *out) {
  for (const float *x = in, *end = in + m * n; x < end; x += n, out += n) {
    double most = *x, sum = 0;
    for (int j = 0; j < n; j++)
      if (x[j] <= most)
        sum += exp(x[j] - most);
      else
        sum = sum * exp(most - x[j]) + 1, most = x[j];
    for (int j = 0; j < n; j++) out[j] = exp(x[j] - most) / sum;
  }
}
