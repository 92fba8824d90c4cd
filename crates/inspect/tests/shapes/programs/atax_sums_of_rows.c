/* problem: polybench_atax */
/* techniques: register_blocking */
#include <stdlib.h>
void polybench_atax(int m, int n, const double *A, const double *x, double *y) {
  double *sum = malloc(sizeof(*sum) * m);
  if (!sum) abort();
  int i = 0;
  for (; i + 4 <= m; i += 4) {
    double a = 0, b = 0, c = 0, d = 0;
    for (int j = 0; j < n; j++) {
      a += A[i * n + j] * x[j];
      b += A[(i + 1) * n + j] * x[j];
      c += A[(i + 2) * n + j] * x[j];
      d += A[(i + 3) * n + j] * x[j];
    }
    sum[i] = a;
    sum[i + 1] = b;
    sum[i + 2] = c;
    sum[i + 3] = d;
  }
  for (; i < m; i++) {
    sum[i] = 0;
    for (int j = 0; j < n; j++) sum[i] += A[i * n + j] * x[j];
  }
  for (int j = 0; j < n; j++) y[j] = 0;
  for (i = 0; i < m; i++)
    for (int j = 0; j < n; j++) y[j] += A[i * n + j] * sum[i];
  free(sum);
}
