/* problem: dgemm */
/* techniques: packing+layout_change */
#include <stdlib.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  double *panels = malloc(sizeof *panels * n * n);
  if (!panels) abort();
  for (int jj = 0; jj < n; jj += 8)
    for (int k = 0; k < n; k++)
      for (int s = 0; s < 8; s++) panels[jj * n + k * 8 + s] = B[k * n + jj + s];
  for (int i = 0; i < n; i++)
    for (int jj = 0; jj < n; jj += 8)
      for (int s = 0; s < 8; s++) {
        double sum = 0;
        for (int k = 0; k < n; k++) sum += A[i * n + k] * panels[jj * n + k * 8 + s];
        C[i * n + jj + s] = sum;
      }
  free(panels);
}
