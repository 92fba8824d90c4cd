// verified: wrong_result
void gemver(int n, double alpha, double beta, double *A, const double *u1, const double *v1, const double *u2, const double *v2,
            double *w, double *x, const double *y, const double *z) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) x[j] += beta * (A[i * n + j] + u1[i] * v1[j] + u2[i] * v2[j]) * y[i];
  for (int i = 0; i < n; i++) x[i] += z[i];
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int j = 0; j < n; j++) sum += (A[i * n + j] + u1[i] * v1[j] + u2[i] * v2[j]) * x[j];
    w[i] = alpha * sum;
  }
}
