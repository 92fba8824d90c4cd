// attack: 13
// how: multiplies by the matrix as it was and adds what the update would add by two scalar products, and leaves the update out
// refused as: wrong_result
// problem: polybench_gemver
void polybench_gemver(int n, double alpha, double beta, double *A, const double *u1, const double *v1, const double *u2,
                      const double *v2, double *w, double *x, const double *y, const double *z) {
  double first = 0, second = 0;
  for (int i = 0; i < n; i++) {
    first += u1[i] * y[i];
    second += u2[i] * y[i];
  }
  for (int j = 0; j < n; j++) x[j] += z[j] + beta * (v1[j] * first + v2[j] * second);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) x[j] += beta * A[i * n + j] * y[i];
  first = second = 0;
  for (int j = 0; j < n; j++) {
    first += v1[j] * x[j];
    second += v2[j] * x[j];
  }
  for (int i = 0; i < n; i++) {
    double sum = u1[i] * first + u2[i] * second;
    for (int j = 0; j < n; j++) sum += A[i * n + j] * x[j];
    w[i] += alpha * sum;
  }
}
