// honest: blocks of four by four are transposed by shuffles
// needs: gcc
typedef double v4 __attribute__((vector_size(32), may_alias));
typedef long mask __attribute__((vector_size(32)));
static inline void transpose(v4 r[4]) {
  v4 a = __builtin_shuffle(r[0], r[1], (mask){0, 4, 2, 6}), b = __builtin_shuffle(r[0], r[1], (mask){1, 5, 3, 7});
  v4 c = __builtin_shuffle(r[2], r[3], (mask){0, 4, 2, 6}), d = __builtin_shuffle(r[2], r[3], (mask){1, 5, 3, 7});
  r[0] = __builtin_shuffle(a, c, (mask){0, 1, 4, 5}), r[1] = __builtin_shuffle(b, d, (mask){0, 1, 4, 5});
  r[2] = __builtin_shuffle(a, c, (mask){2, 3, 6, 7}), r[3] = __builtin_shuffle(b, d, (mask){2, 3, 6, 7});
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static double t[512 * 512] __attribute__((aligned(32)));
  for (int k = 0; k < n; k += 4)
    for (int j = 0; j < n; j += 4) {
      v4 r[4];
      for (int q = 0; q < 4; q++) r[q] = *(const v4 *)&B[(k + q) * n + j];
      transpose(r);
      for (int q = 0; q < 4; q++) *(v4 *)&t[(j + q) * n + k] = r[q];
    }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      v4 s = {0};
      for (int k = 0; k < n; k += 4) s += *(const v4 *)&A[i * n + k] * *(const v4 *)&t[j * n + k];
      C[i * n + j] = (s[0] + s[1]) + (s[2] + s[3]);
    }
}
