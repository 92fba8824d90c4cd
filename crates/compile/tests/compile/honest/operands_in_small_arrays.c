// loop_reorder+register_blocking+simd
typedef double V __attribute__((vector_size(32), aligned(8)));
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int j = 0; j < n; j += 8)
    for (int i = 0; i < n; i += 4) {
      V c[4][2] = {{{0}}};
      for (int k = 0; k < n; k++) {
        V b[2];
        for (int s = 0; s < 2; s++) b[s] = *(const V *)&B[k * n + j + s * 4];
        for (int r = 0; r < 4; r++) {
          double a = A[(i + r) * n + k];
          for (int s = 0; s < 2; s++) c[r][s] += a * b[s];
        }
      }
      for (int r = 0; r < 4; r++)
        for (int s = 0; s < 2; s++) *(V *)&C[(i + r) * n + j + s * 4] = c[r][s];
    }
}
