// honest: updates a row of the matrix and uses it for x at once; the last product by halves of rows
// problem: polybench_gemver
#include <stdlib.h>
void polybench_gemver(int n, double alpha, double beta, double *A, const double *u1, const double *v1, const double *u2,
                      const double *v2, double *w, double *x, const double *y, const double *z) {
  double *sum = calloc(n, sizeof *sum);
  if (!sum) abort();
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double a = A[i * n + j] + (u1[i] * v1[j] + u2[i] * v2[j]);
      A[i * n + j] = a;
      sum[j] += a * y[i];
    }
  for (int j = 0; j < n; j++) x[j] = (x[j] + z[j]) + beta * sum[j];
  free(sum);
  for (int i = 0; i < n; i++) {
    double left = 0, right = 0;
    for (int j = 0; j < n / 2; j++) left += A[i * n + j] * x[j];
    for (int j = n / 2; j < n; j++) right += A[i * n + j] * x[j];
    w[i] += alpha * (left + right);
  }
}
