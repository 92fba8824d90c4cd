/* problem: softmax */
/* techniques: branch_removal */
#include <math.h>
void softmax(int m, int n, const float *in, float *out) {
  for (int i = 0; i < m; i++) {
    const float *x = in + i * n;
    float *y = out + i * n;
    float most = x[0];
    for (int j = 1; j < n; j++) most = fmaxf(most, x[j]);
    double sum = 0;
    for (int j = 0; j < n; j++) sum += exp(x[j] - most);
    for (int j = 0; j < n; j++) y[j] = exp(x[j] - most) / sum;
  }
}
