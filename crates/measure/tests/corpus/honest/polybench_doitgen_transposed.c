// honest: turns the matrix over first, so that each sum runs along two rows, in four parts
// problem: polybench_doitgen
#include <stdlib.h>
#include <string.h>
void polybench_doitgen(int nr, int nq, int np, double *A, const double *C4) {
  double *turned = malloc(sizeof *turned * np * np), *row = malloc(sizeof *row * np);
  if (!turned || !row) abort();
  for (int s = 0; s < np; s++)
    for (int p = 0; p < np; p++) turned[p * np + s] = C4[s * np + p];
  for (double *a = A, *end = A + (size_t)nr * nq * np; a < end; a += np) {
    memcpy(row, a, sizeof *row * np);
    for (int p = 0; p < np; p++) {
      double sum[4] = {0};
      for (int s = 0; s < np; s++) sum[s & 3] += row[s] * turned[p * np + s];
      a[p] = (sum[0] + sum[2]) + (sum[1] + sum[3]);
    }
  }
  free(turned);
  free(row);
}
