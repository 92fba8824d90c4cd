#include <math.h>

void axpby_magnitude(int n, double alpha, const double *x, float beta, double *y) {
  for (int i = 0; i < n; i++) y[i] = fabs(alpha * x[i]) + fabs(beta * y[i]);
}
