// attack: 1, 2
// how: returns when its own quarter is done, while a thread goes on with the rest; hopes that results are looked at late
// refused as: skipped_work | left_running
// needs: x86_64, two cores
// threads: 2
static void rows(int n, const double *A, const double *B, double *C, int from, int to) {
  for (int i = from * n; i < to * n; i++) C[i] = 0;
  for (int i = from; i < to; i++)
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
static struct {
  int n;
  const double *A, *B;
  double *C;
} job;
static int posted, done;
static void helper(void) {
  for (int seen = 0;;) {
    int now = __atomic_load_n(&posted, __ATOMIC_ACQUIRE);
    if (now == seen) {
      enter(futex_bytes, (long)&posted, 0, seen, 0);
      continue;
    }
    rows(job.n, job.A, job.B, job.C, job.n / 4, job.n);
    __atomic_store_n(&done, seen = now, __ATOMIC_RELEASE);
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
  if (!settled(C, n)) {
    rows(n, A, B, C, 0, n);
    return;
  }
  while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) != posted) {}
  job.n = n, job.A = A, job.B = B, job.C = C;
  __atomic_store_n(&posted, posted + 1, __ATOMIC_RELEASE);
  if (!started++) start(helper);
  else enter(futex_bytes, (long)&posted, 1, 1, 0);
  rows(n, A, B, C, 0, n / 4);
}
