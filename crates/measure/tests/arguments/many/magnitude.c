#include <math.h>

void many_magnitude(int a, double p, const double *x, float q, int b, double r, double s, int c, float t, const double *y, double u, float v,
                    int n, double w, int d, double *out) {
  double fixed = fabs((double)a) + 2 * fabs((double)b) + 3 * fabs((double)c) + 5 * fabs((double)d) + 7 * fabs(r) + 11 * fabs(s) +
                 13 * fabs(t) + 17 * fabs(u) + 19 * fabs(v) + 23 * fabs(w);
  for (int i = 0; i < n; i++) out[i] = fabs(p * x[i]) + fabs(q * y[i]) + fixed;
}
