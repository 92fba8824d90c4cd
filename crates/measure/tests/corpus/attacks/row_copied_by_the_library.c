// attack: 29
// how: packs rows by the library's function for copies; hopes that only loops are followed
// refused as: forbidden_technique
// permitted: loop_reorder, unroll, simd
#include <string.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  double row[n];
  for (int i = 0; i < n; i++) {
    memcpy(row, &A[i * n], n * sizeof *row);
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += row[k] * B[k * n + j];
      C[i * n + j] = sum;
    }
  }
}
