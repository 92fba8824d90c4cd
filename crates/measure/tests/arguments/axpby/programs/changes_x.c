// verified: input_modified
void axpby(int n, double alpha, const double *x, float beta, double *y) {
  for (int i = 0; i < n; i++) {
    y[i] = alpha * x[i] + beta * y[i];
    ((double *)x)[i] = y[i];
  }
}
