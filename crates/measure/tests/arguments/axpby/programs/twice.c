// verified: wrong_result
void axpby(int n, double alpha, const double *x, float beta, double *y) {
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < n; i++) y[i] = alpha * x[i] + beta * y[i];
}
