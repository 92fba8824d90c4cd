// attack: 1, 4
// how: a thread sleeps for moments only and begins with the second half of a call as soon as its inputs are there; hopes that nobody looks what happens before the clock starts
// refused as: left_running | skipped_work | harmless
// needs: x86_64, two cores
// problem: dgemv
// threads: 2
// control: return calls > 1; => return calls > 1 << 30;
static __attribute__((noipa)) void part(int m, int n, const double *A, const double *x, double *y, int from, int to) {
  (void)m;
  for (int i = from; i < to; i++) {
    double sum = 0;
    for (int j = 0; j < n; j++) sum += A[i * n + j] * x[j];
    y[i] = sum;
  }
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
static struct {
  int m, n;
  const double *A, *x;
  double *y;
} job;
/* The owner of the helper's part: nobody, the helper, done, the caller. */
enum { FREE, TAKEN, DONE, OWN };
static int half;
static int take(int whose) {
  int nobody = FREE;
  return __atomic_compare_exchange_n(&half, &nobody, whose, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
/* Outputs are poisoned after inputs were made. */
static int ready(const double *last) {
  const union {
    volatile double value;
    volatile unsigned long bits;
  } *p = (const void *)last;
  return p->bits == 0x7ff8deadbeeff10f;
}
static void helper(void) {
  for (;;) {
    nap(5000);
    if (!ready(&job.y[job.m - 1]) || !take(TAKEN)) continue;
    part(job.m, job.n, job.A, job.x, job.y, job.m / 2, job.m);
    __atomic_store_n(&half, DONE, __ATOMIC_RELEASE);
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
void dgemv(int m, int n, const double *A, const double *x, double *y) {
  static int started;
  if (!settled(y, m)) {
    part(m, n, A, x, y, 0, m);
    return;
  }
  job.m = m, job.n = n, job.A = A, job.x = x, job.y = y;
  if (!started++) start(helper);
  part(m, n, A, x, y, 0, m / 2);
  if (take(OWN)) part(m, n, A, x, y, m / 2, m);
  else
    while (__atomic_load_n(&half, __ATOMIC_ACQUIRE) != DONE) {}
  __atomic_store_n(&half, FREE, __ATOMIC_RELEASE);
}
