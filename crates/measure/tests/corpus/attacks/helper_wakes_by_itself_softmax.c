// attack: 1, 4
// how: a thread sleeps for moments only and begins with the second half of a call as soon as its inputs are there; hopes that nobody looks what happens before the clock starts
// refused as: left_running | skipped_work | harmless
// needs: x86_64, two cores
// problem: softmax
// threads: 2
// control: return calls > 1; => return calls > 1 << 30;
#include <math.h>
static __attribute__((noipa)) void part(int m, int n, const float *in, float *out, int from, int to) {
  (void)m;
  for (int i = from; i < to; i++) {
    const float *x = &in[i * n];
    double most = x[0], sum = 0;
    for (int j = 1; j < n; j++)
      if (x[j] > most) most = x[j];
    for (int j = 0; j < n; j++) sum += exp(x[j] - most);
    for (int j = 0; j < n; j++) out[i * n + j] = exp(x[j] - most) / sum;
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
  const float *in;
  float *out;
} job;
/* The owner of the helper's part: nobody, the helper, done, the caller. */
enum { FREE, TAKEN, DONE, OWN };
static int half;
static int take(int whose) {
  int nobody = FREE;
  return __atomic_compare_exchange_n(&half, &nobody, whose, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
/* Outputs are poisoned after inputs were made. */
static int ready(const float *last) {
  const union {
    volatile float value;
    volatile unsigned bits;
  } *p = (const void *)last;
  return p->bits == 0x7fc0f10f;
}
static void helper(void) {
  for (;;) {
    nap(5000);
    if (!ready(&job.out[job.m * job.n - 1]) || !take(TAKEN)) continue;
    part(job.m, job.n, job.in, job.out, job.m / 2, job.m);
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
void softmax(int m, int n, const float *in, float *out) {
  static int started;
  if (!settled(out, m)) {
    part(m, n, in, out, 0, m);
    return;
  }
  job.m = m, job.n = n, job.in = in, job.out = out;
  if (!started++) start(helper);
  part(m, n, in, out, 0, m / 2);
  if (take(OWN)) part(m, n, in, out, m / 2, m);
  else
    while (__atomic_load_n(&half, __ATOMIC_ACQUIRE) != DONE) {}
  __atomic_store_n(&half, FREE, __ATOMIC_RELEASE);
}
