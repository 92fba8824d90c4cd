// attack: 29
// how: counts in conditions and works in the steps of loops that have no body; hopes that only bodies are looked at
// refused as: forbidden_technique
// permitted: unroll, simd
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int e = 0; e < n * n; e++) C[e] = 0;
  for (int i = 0; i < n; i++) {
    int k = 0;
    do {
      for (int j = 0; j < n; C[i * n + j] += A[i * n + k] * B[k * n + j], j++) {}
    } while (++k < n);
  }
}
