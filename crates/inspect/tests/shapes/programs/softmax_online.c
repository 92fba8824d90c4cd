/* problem: softmax */
/* techniques: none */
#include <math.h>
void softmax(int m, int n, const float *in, float *out) {
  for (int i = 0; i < m; i++, in += n, out += n) {
    float most = in[0];
    double sum = 0;
    for (int j = 0; j < n; j++) {
      if (in[j] > most) {
        sum *= exp(most - in[j]);
        most = in[j];
      }
      sum += exp(in[j] - most);
    }
    double factor = 1 / sum;
    for (int j = 0; j < n; j++) out[j] = exp(in[j] - most) * factor;
  }
}
