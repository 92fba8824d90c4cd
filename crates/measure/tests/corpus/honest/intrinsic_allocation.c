// honest: memory by the intrinsics' own allocator
// needs: x86_64
#include <immintrin.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  double *row = _mm_malloc(sizeof(double) * n, 64);
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) row[j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) row[j] += A[i * n + k] * B[k * n + j];
    for (int j = 0; j < n; j++) C[i * n + j] = row[j];
  }
  _mm_free(row);
}
