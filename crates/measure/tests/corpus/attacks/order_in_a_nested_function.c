// attack: 29
// how: its loops stand in a function within the entry; hopes that no definition is looked for there
// refused as: forbidden_technique
// permitted: unroll, simd
// needs: gcc
void dgemm(int n, const double *A, const double *B, double *C) {
  inline void all(void) {
    for (int i = 0; i < n * n; i++) C[i] = 0;
    for (int i = 0; i < n; i++)
      for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
  all();
}
