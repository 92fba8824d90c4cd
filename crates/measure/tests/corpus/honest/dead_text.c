// honest: code that the preprocessor removes, with everything that is not permitted
#if 0
asm("syscall");
__attribute__((constructor)) static void early(void) { system("sh"); }
void *dlopen(const char *, int);
static __thread int x = __builtin_ia32_rdtsc();
#pragma GCC optimize("Ofast")
#endif
#ifdef DEBUG
void show(int n) { printf("%d\n", n); }
#else
#define show(n) ((void)0)
#endif
void dgemm(int n, const double *A, const double *B, double *C) {
  show(n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += A[i * n + k] * B[k * n + j];
      C[i * n + j] = sum;
    }
}
