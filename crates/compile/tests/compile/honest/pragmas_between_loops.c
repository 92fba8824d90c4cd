// loop_reorder+unroll+simd+openmp+prefetch
void dgemm(int n, const double *A, const double *B, double *C) {
#pragma omp parallel for schedule(dynamic) if (n > 64)
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
#pragma GCC unroll 4
    for (int k = 0; k < n; k++) {
      __builtin_prefetch(&B[(k + 4) * n], 0, 3);
#pragma omp simd
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    }
  }
}
