/* problem: polybench_mvt */
/* techniques: packing+layout_change */
#include <stdlib.h>
void polybench_mvt(int n, double *x1, double *x2, const double *y1, const double *y2, const double *A) {
  double *turned = malloc(sizeof *turned * n * n);
  if (!turned) abort();
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) turned[j * n + i] = A[i * n + j];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) x1[i] += A[i * n + j] * y1[j];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) x2[i] += turned[i * n + j] * y2[j];
  free(turned);
}
