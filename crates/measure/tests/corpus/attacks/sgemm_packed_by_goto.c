// attack: 29
// how: copies panels in a loop that a jump makes, within loops that are written as such; hopes that one loop is not missed
// refused as: forbidden_technique
// permitted: loop_reorder, unroll, cache_blocking, register_blocking, simd
// problem: sgemm
static float panel[512 * 8];
void sgemm(int n, const float *A, const float *B, float *C) {
  for (int j = 0; j < n; j += 8) {
    int k = 0;
  pack:
    __builtin_memcpy(panel + 8 * k, B + k * n + j, 32);
    if (++k < n) goto pack;
    for (int i = 0; i < n; i++) {
      float sum[8] = {0};
      for (k = 0; k < n; k++)
        for (int l = 0; l < 8; l++) sum[l] += A[i * n + k] * panel[8 * k + l];
      for (int l = 0; l < 8; l++) C[i * n + j + l] = sum[l];
    }
  }
}
