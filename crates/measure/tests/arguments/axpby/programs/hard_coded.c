// verified: wrong_result
void axpby(int n, double alpha, const double *x, float beta, double *y) {
  (void)alpha;
  for (int i = 0; i < n; i++) y[i] = 1.25 * x[i] + beta * y[i];
}
