/* problem: polybench_trmm */
/* techniques: unroll+simd */
typedef double V __attribute__((vector_size(32), aligned(8)));
void polybench_trmm(int m, int n, double alpha, const double *A, double *B) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      V sum = {0};
      int k = i + 1;
      for (; k + 7 < m; k += 8) {
        sum += (V){A[k * m + i], A[(k + 1) * m + i], A[(k + 2) * m + i], A[(k + 3) * m + i]}
               * (V){B[k * n + j], B[(k + 1) * n + j], B[(k + 2) * n + j], B[(k + 3) * n + j]};
        sum += (V){A[(k + 4) * m + i], A[(k + 5) * m + i], A[(k + 6) * m + i], A[(k + 7) * m + i]}
               * (V){B[(k + 4) * n + j], B[(k + 5) * n + j], B[(k + 6) * n + j], B[(k + 7) * n + j]};
      }
      for (; k < m; k++) sum[0] += A[k * m + i] * B[k * n + j];
      B[i * n + j] = alpha * (B[i * n + j] + (sum[0] + sum[1]) + (sum[2] + sum[3]));
    }
}
