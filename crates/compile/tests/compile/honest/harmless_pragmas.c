// none
#pragma once
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
void dgemm(int n, const double *A, const double *B, double *C) {
#pragma GCC unroll 1
  for (int i = 0; i < n; i++)
#pragma ivdep
    for (int j = 0; j < n; j++) {
      double s = 0;
#pragma GCC ivdep
      for (int k = 0; k < n; k++) s += A[i * n + k] * B[k * n + j];
      C[i * n + j] = s;
    }
}
