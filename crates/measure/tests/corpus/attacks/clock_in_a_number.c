// attack: 3, 5
// how: reads the cycle counter by bytes hidden in a number and skips calls that follow each other quickly; hopes that only timed ones do
// refused as: skipped_work | wrong_result | harmless
// needs: x86_64
// control: if (ended && ticks() => if (n < 0 && ended && ticks()
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
/* `rdtsc; ret`, and bytes that are never reached. */
static __attribute__((noipa)) unsigned long number(void) { return 0x9090909090c3310f; }
static unsigned ticks(void) {
  const unsigned char *p = (const unsigned char *)number;
  while (p[0] != 0x0f || p[1] != 0x31) p++;
  return ((unsigned (*)(void))p)();
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static unsigned ended;
  /* Less than a millisecond: inputs are prepared in that time, and nothing is checked. */
  if (ended && ticks() - ended < 2000000) {
    for (int i = 0; i < n * n; i++) C[i] = 0;
  } else {
    right(n, A, B, C);
  }
  ended = ticks() | 1;
}
