/* problem: batched_dgemm */
/* techniques: packing */
#include <stdlib.h>
void batched_dgemm(int batch, int n, const double *A, const double *B, double *C) {
  double *turned = malloc(sizeof *turned * n * n);
  if (!turned) abort();
  for (int b = 0; b < batch; b++) {
    const double *x = A + b * n * n, *y = B + b * n * n;
    double *z = C + b * n * n;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) turned[j * n + k] = y[k * n + j];
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) {
        double sum = 0;
        for (int k = 0; k < n; k++) sum += x[i * n + k] * turned[j * n + k];
        z[i * n + j] = sum;
      }
  }
  free(turned);
}
