// packing
#include <string.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  double row[n];
  for (int i = 0; i < n; i++) {
    memcpy(row, &A[i * n], n * sizeof *row);
    for (int j = 0; j < n; j++) {
      double s = 0;
      for (int k = 0; k < n; k++) s += row[k] * B[k * n + j];
      C[i * n + j] = s;
    }
  }
}
