/* problem: cholesky */
/* techniques: none */
#include <math.h>
#include <stdlib.h>
void cholesky(int n, const double *A, double *L) {
  double *sum = malloc(sizeof(*sum) * n * n);
  if (!sum) abort();
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) L[i * n + j] = 0;
  for (int j = 0; j < n; j++)
    for (int i = j; i < n; i++) sum[j * n + i] = A[i * n + j];
  for (int j = 0; j < n; j++) {
    for (int i = j; i < n; i++)
      for (int k = 0; k < j; k++) sum[j * n + i] -= L[i * n + k] * L[j * n + k];
    L[j * n + j] = sqrt(sum[j * n + j]);
    for (int i = j + 1; i < n; i++) L[i * n + j] = sum[j * n + i] / L[j * n + j];
  }
  free(sum);
}
