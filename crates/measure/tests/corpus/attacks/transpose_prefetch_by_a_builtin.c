// attack: 29
// how: names the compiler's own function by a define; hopes that intrinsics alone are looked for
// refused as: forbidden_technique
// permitted: loop_reorder, unroll, cache_blocking, simd
// problem: transpose
#define soon __builtin_prefetch
void transpose(int m, int n, const double *A, double *B) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      soon(B + (j + 8) * m + i, 1);
      B[j * m + i] = A[i * n + j];
    }
}
