/* problem: polybench_doitgen */
/* techniques: none */
#include <stdlib.h>
void polybench_doitgen(int nr, int nq, int np, double *A, const double *C4) {
  double *sum = malloc(sizeof *sum * np);
  if (!sum) abort();
  for (int r = 0; r < nr; r++)
    for (int q = 0; q < nq; q++) {
      double *row = A + (r * nq + q) * np;
      for (int p = 0; p < np; p++) {
        double total = 0;
        for (int s = 0; s < np; s++) total += row[s] * C4[s * np + p];
        sum[p] = total;
      }
      for (int p = 0; p < np; p++) row[p] = sum[p];
    }
  free(sum);
}
