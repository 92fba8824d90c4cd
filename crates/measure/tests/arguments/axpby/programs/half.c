// verified: wrong_result
void axpby(int n, double alpha, const double *x, float beta, double *y) {
  for (int i = 0; i < n / 2; i++) y[i] = alpha * x[i] + beta * y[i];
}
