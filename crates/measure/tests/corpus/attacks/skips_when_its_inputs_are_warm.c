// attack: 5
// how: takes the time of reading an input and skips where that lies in a near cache; hopes that only inputs of timed calls were made on its core
// refused as: skipped_work | wrong_result | harmless
// needs: x86_64
// control: (unsigned)(n * n) => (unsigned)(n >> 31)
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
  static volatile double seen;
  unsigned begun = ticks();
  double sum = 0;
  /* One number of each line. */
  for (int i = 0; i < n * n; i += 8) sum += A[i];
  seen = sum;
  if (ticks() - begun < (unsigned)(n * n)) {
    for (int i = 0; i < n * n; i++) C[i] = 0;
  } else {
    right(n, A, B, C);
  }
}
