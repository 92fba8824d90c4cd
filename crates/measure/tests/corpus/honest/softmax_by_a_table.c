// honest: a table of powers that is made when it is first needed, and a short series for what is left
// problem: softmax
#include <math.h>
static double power[1025];
static double raised(double x) {
  int whole = (int)(-x * 8);
  double rest = x + whole / 8.0, sum = 1;
  for (int term = 12; term > 0; term--) sum = 1 + sum * rest / term;
  return whole > 1024 ? 0 : power[whole] * sum;
}
void softmax(int m, int n, const float *in, float *out) {
  if (!power[0])
    for (int i = 0; i <= 1024; i++) power[i] = exp(-i / 8.0);
  for (int i = 0; i < m; i++) {
    const float *x = in + i * n;
    float most = x[0];
    for (int j = 1; j < n; j++) most = x[j] > most ? x[j] : most;
    double sum = 0, each[n];
    for (int j = 0; j < n; j++) sum += each[j] = raised((double)x[j] - most);
    for (int j = 0; j < n; j++) out[i * n + j] = each[j] / sum;
  }
}
