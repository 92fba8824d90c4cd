// simd
typedef double V __attribute__((vector_size(32), aligned(8)));
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j += 4) {
      V c = {0};
      for (int k = 0; k < n; k++) c += A[i * n + k] * *(V *)&B[k * n + j];
      *(V *)&C[i * n + j] = c;
    }
}
