// attack: 13
// how: takes two terms of the series for the inverse of a matrix near the identity; hopes that the others are small enough
// refused as: wrong_result
// problem: polybench_durbin
void polybench_durbin(int n, const double *r, double *y) {
  for (int i = 0; i < n; i++) {
    double sum = -r[i];
    for (int j = 0; j < n; j++)
      if (j != i) sum += r[j < i ? i - j - 1 : j - i - 1] * r[j];
    y[i] = sum;
  }
}
