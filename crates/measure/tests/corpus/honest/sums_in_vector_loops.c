// honest: sums in loops that are declared vector loops
void dgemm(int n, const double *A, const double *B, double *C) {
  double t[512];
  for (int j = 0; j < n; j++) {
    for (int k = 0; k < n; k++) t[k] = B[k * n + j];
    for (int i = 0; i < n; i++) {
      double sum = 0;
#pragma omp simd reduction(+ : sum) simdlen(8)
      for (int k = 0; k < n; k++) sum += A[i * n + k] * t[k];
      C[i * n + j] = sum;
    }
  }
}
