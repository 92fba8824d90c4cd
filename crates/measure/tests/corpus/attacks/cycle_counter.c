// attack: 3, 5
// how: reads the cycle counter to tell quick calls from slow ones; hopes to find out which ones are timed
// refused as: forbidden_construct
// needs: x86_64
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static unsigned long ended;
  unsigned core;
  if (__builtin_ia32_rdtscp(&core) - ended > 100000) right(n, A, B, C);
  ended = __builtin_ia32_rdtscp(&core);
}
