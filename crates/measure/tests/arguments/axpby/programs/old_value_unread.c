// verified: wrong_result
void axpby(int n, double alpha, const double *x, float beta, double *y) {
  (void)beta;
  for (int i = 0; i < n; i++) y[i] = alpha * x[i];
}
