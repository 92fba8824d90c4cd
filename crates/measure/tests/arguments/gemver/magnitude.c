#include <math.h>

void gemver_magnitude(int n, double alpha, double beta, double *A, const double *u1, const double *v1, const double *u2, const double *v2,
                      double *w, double *x, const double *y, const double *z) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) A[i * n + j] = fabs(A[i * n + j]) + fabs(u1[i] * v1[j]) + fabs(u2[i] * v2[j]);
  for (int i = 0; i < n; i++) {
    x[i] = fabs(x[i]) + fabs(z[i]);
    for (int j = 0; j < n; j++) x[i] += fabs(beta) * A[j * n + i] * fabs(y[j]);
  }
  for (int i = 0; i < n; i++) {
    w[i] = 0;
    for (int j = 0; j < n; j++) w[i] += fabs(alpha) * A[i * n + j] * x[j];
  }
}
