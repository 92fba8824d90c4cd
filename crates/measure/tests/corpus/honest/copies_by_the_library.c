// honest: rows are copied, moved and cleared by the library
#include <stdlib.h>
#include <string.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  double *row = calloc(n, sizeof *row), *terms = malloc(n * sizeof *terms);
  for (int i = 0; i < n; i++) {
    memmove(terms, A + i * n, n * sizeof *terms);
    memset(row, 0, n * sizeof *row);
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) row[j] += terms[k] * B[k * n + j];
    memcpy(C + i * n, row, n * sizeof *row);
  }
  free(row), free(terms);
}
