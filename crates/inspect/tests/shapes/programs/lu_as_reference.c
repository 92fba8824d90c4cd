/* problem: lu */
/* techniques: none */
static double term(int n, const double *x, const double *y, int count) {
  double sum = 0;
  while (count-- > 0) {
    sum += *x++ * *y;
    y += n;
  }
  return sum;
}
void lu(int n, const double *A, double *LU) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = A[i * n + j] - term(n, LU + i * n, LU + j, i < j ? i : j);
      LU[i * n + j] = i > j ? sum / LU[j * n + j] : sum;
    }
}
