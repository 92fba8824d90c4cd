// honest: columns first, through column-major copies of all three matrices
#include <stdlib.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  size_t cells = (size_t)n * n;
  double *a = malloc(3 * cells * sizeof *a), *b = a + cells, *c = b + cells;
  for (int r = 0; r < n; r++)
    for (int s = 0; s < n; s++) a[s * n + r] = A[r * n + s], b[s * n + r] = B[r * n + s], c[s * n + r] = 0;
  for (int j = 0; j < n; j++)
    for (int k = 0; k < n; k++)
      for (int i = 0; i < n; i++) c[j * n + i] += a[k * n + i] * b[j * n + k];
  for (int r = 0; r < n; r++)
    for (int s = 0; s < n; s++) C[r * n + s] = c[s * n + r];
  free(a);
}
