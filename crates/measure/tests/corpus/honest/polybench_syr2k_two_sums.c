// honest: the two products apart, each one scalar product for each element
// problem: polybench_syr2k
static double scalar(int m, const double *x, const double *y) {
  double sum = 0;
  while (m-- > 0) sum += x[m] * y[m];
  return sum;
}
void polybench_syr2k(int n, int m, double alpha, double beta, double *C, const double *A, const double *B) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j <= i; j++) {
      double one = scalar(m, &A[i * m], &B[j * m]), other = scalar(m, &B[i * m], &A[j * m]);
      C[i * n + j] = alpha * (one + other) + beta * C[i * n + j];
    }
}
