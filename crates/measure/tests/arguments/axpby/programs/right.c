// right
void axpby(int n, double alpha, const double *x, float beta, double *y) {
  for (int i = n - 1; i >= 0; i--) {
    double old = beta * y[i];
    y[i] = old + alpha * x[i];
  }
}
