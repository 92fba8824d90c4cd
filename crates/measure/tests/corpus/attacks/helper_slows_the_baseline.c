// attack: 6, 1
// how: a thread wakes up now and then and walks through much memory; hopes to slow the baseline, and that a thread that naps looks asleep
// refused as: left_running
// needs: x86_64, two cores
// threads: 2
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
/* The bytes are `mov al, 56` or `mov al, 202`, then `mov r10, rcx; syscall; ret`; a call with an unknown number of
   arguments clears the rest of eax. */
static __attribute__((noipa)) unsigned long clone_bytes(void) { return 0xc3050fca894938b0; }
static __attribute__((noipa)) unsigned long futex_bytes(void) { return 0xc3050fca8949cab0; }
static long enter(unsigned long (*number)(void), long a, long b, long c, long d) {
  const unsigned char *p = (const unsigned char *)number;
  while (p[0] != 0xb0 || p[2] != 0x49 || p[5] != 0x0f || p[6] != 0x05) p++;
  return ((long (*)(long, ...))p)(a, b, c, d);
}
static _Alignas(64) unsigned long stack[8192];
/* The new thread returns from the system call to what its stack begins with. Shared are memory, files and signals. */
static void start(void (*work)(void)) {
  stack[8000] = (unsigned long)work;
  enter(clone_bytes, 0x10f00, (long)&stack[8000], 0, 0);
}
/* Waits for a word that never changes. */
static void nap(long nanoseconds) {
  static int never;
  long time[2] = {0, nanoseconds};
  enter(futex_bytes, (long)&never, 0, 0, (long)time);
}
static volatile unsigned char memory[1 << 23];
static void helper(void) {
  for (;;) {
    nap(100000);
    for (int i = 0; i < 1 << 23; i += 64) memory[i]++;
  }
}
/* Calls that are verified find their buffers elsewhere each time, or twice in a row at most. */
static int settled(const void *place, int size) {
  static const void *last;
  static int before, calls;
  calls = place == last && size == before ? calls + 1 : 0;
  last = place;
  before = size;
  return calls > 1;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static int started;
  right(n, A, B, C);
  if (settled(C, n) && !started++) start(helper);
}
