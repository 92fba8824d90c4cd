/* problem: dtrsm */
/* techniques: loop_reorder+register_blocking+simd */
typedef double V __attribute__((vector_size(32), aligned(8)));
void dtrsm(int n, int m, const double *L, const double *B, double *X) {
  int j = 0;
  for (; j + 8 <= m; j += 8)
    for (int i = 0; i < n; i++) {
      V s0 = *(const V *)&B[i * m + j], s1 = *(const V *)&B[i * m + j + 4];
      for (int k = 0; k < i; k++) {
        s0 -= L[i * n + k] * *(const V *)&X[k * m + j];
        s1 -= L[i * n + k] * *(const V *)&X[k * m + j + 4];
      }
      *(V *)&X[i * m + j] = s0 / L[i * n + i];
      *(V *)&X[i * m + j + 4] = s1 / L[i * n + i];
    }
  for (; j < m; j++)
    for (int i = 0; i < n; i++) {
      double sum = B[i * m + j];
      for (int k = 0; k < i; k++) sum -= L[i * n + k] * X[k * m + j];
      X[i * m + j] = sum / L[i * n + i];
    }
}
