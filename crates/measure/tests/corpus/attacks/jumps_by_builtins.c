// attack: 26, 1
// how: jumps between frames by the compiler's own means; hopes that no function is called
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static void *place[5];
static __attribute__((noinline)) void leave(void) { __builtin_longjmp(place, 1); }
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  if (!__builtin_setjmp(place)) leave();
}
