// honest: wide registers are used by the compiler's own built-ins and not cleared
// needs: x86_64, gcc
#ifdef __AVX__
typedef double v4 __attribute__((vector_size(32), may_alias));
static inline v4 all(const double *p) { return __builtin_ia32_vbroadcastsd256(p); }
#else
typedef double v4 __attribute__((vector_size(32), may_alias));
static inline v4 all(const double *p) { return (v4){*p, *p, *p, *p}; }
#endif
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j += 8) {
      v4 c = {0}, d = {0};
      for (int k = 0; k < n; k++) {
        v4 a = all(&A[i * n + k]);
        c += a * *(const v4 *)&B[k * n + j], d += a * *(const v4 *)&B[k * n + j + 4];
      }
      *(v4 *)&C[i * n + j] = c, *(v4 *)&C[i * n + j + 4] = d;
    }
}
