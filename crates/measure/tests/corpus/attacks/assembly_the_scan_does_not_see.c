// attack: 20, 29
// how: shows its assembly to the compiler only, by a macro that is not set where the source is looked at; hopes that both see the same text
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
#ifdef __PIE__
#define WARM(p) ((void)(p))
#else
#define WARM(p) __asm__ volatile("prefetcht0 (%0)" : : "r"(p))
#endif
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int k = 0; k < n; k++) WARM(&B[k * n]);
  right(n, A, B, C);
}
