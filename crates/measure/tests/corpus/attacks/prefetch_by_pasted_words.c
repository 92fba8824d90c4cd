// attack: 29
// how: prefetches by a word in two parts; hopes that only whole words are looked for
// refused as: forbidden_technique
// permitted: loop_reorder, simd
#define JOIN(a, b) a##b
#define AHEAD(p) JOIN(__builtin_, prefetch)(p)
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) {
        AHEAD(&B[(k + 8) * n + j]);
        sum += A[i * n + k] * B[k * n + j];
      }
      C[i * n + j] = sum;
    }
}
