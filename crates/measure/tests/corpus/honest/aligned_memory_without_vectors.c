// honest: memory of a header for vectors, where vectors are forbidden
// permitted: loop_reorder, packing
// needs: x86_64
#include <immintrin.h>
#include <stdlib.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  double *row = _mm_malloc(sizeof *row * n, 64);
  if (!row) abort();
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) row[j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) row[j] += A[i * n + k] * B[k * n + j];
    for (int j = 0; j < n; j++) C[i * n + j] = row[j];
  }
  _mm_free(row);
}
