// honest: updates the solution in place, two elements that mirror each other at a time
// problem: polybench_durbin
void polybench_durbin(int n, const double *r, double *y) {
  double beta = 1, alpha;
  y[0] = alpha = -r[0];
  for (int k = 1; k < n; k++) {
    beta -= beta * alpha * alpha;
    double sum = r[k];
    for (int i = k - 1; i >= 0; i--) sum += r[k - 1 - i] * y[i];
    alpha = -sum / beta;
    for (int i = 0, j = k - 1; i <= j; i++, j--) {
      double left = y[i], right = y[j];
      y[i] = left + alpha * right;
      y[j] = right + alpha * left;
    }
    y[k] = alpha;
  }
}
