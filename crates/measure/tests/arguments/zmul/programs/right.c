// right
void zmul(int n, const double _Complex *x, double _Complex *y) {
  for (int i = 0; i < n; i++) y[i] *= x[i];
}
