/* problem: polybench_gesummv */
/* techniques: loop_reorder+cache_blocking */
#include <stdlib.h>
static int least(int a, int b) { return a < b ? a : b; }
void polybench_gesummv(int n, double alpha, double beta, const double *A, const double *B, const double *x, double *y) {
  double *second = calloc(n, sizeof(*second));
  if (!second) abort();
  for (int i = 0; i < n; i++) y[i] = 0;
  for (int ii = 0; ii < n; ii += 64)
    for (int j = 0; j < n; j++)
      for (int i = ii; i < least(n, ii + 64); i++) {
        y[i] += A[i * n + j] * x[j];
        second[i] += B[i * n + j] * x[j];
      }
  for (int i = 0; i < n; i++) y[i] = alpha * y[i] + beta * second[i];
  free(second);
}
