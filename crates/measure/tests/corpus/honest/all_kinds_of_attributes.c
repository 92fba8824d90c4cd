// honest: the attributes that change nothing about what is computed
static __attribute__((hot, flatten, noinline, nonnull(3, 4))) void row(int, double, const double *, double *);
__attribute__((const, unused)) static inline int square(int x) { return x * x; }
__attribute__((pure, always_inline)) static inline double first(const double *p) { return *p; }
__attribute__((cold, noreturn)) static void never(void) { for (;;) {} }
struct __attribute__((packed, aligned(8))) pair { double a; int b; };
__attribute__((hot)) void dgemm(int n, const double *A, const double *B, double *C) {
  struct pair p __attribute__((unused)) = {0, square(n)};
  if (__builtin_expect(n < 0, 0)) never();
  for (int e = 0; e < p.b; e++) C[e] = p.a;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) row(n, first(A + i * n + k), B + k * n, C + i * n);
}
static void row(int n, double a, const double *b, double *c) {
  for (int j = 0; j < n; j++) c[j] += a * b[j];
}
