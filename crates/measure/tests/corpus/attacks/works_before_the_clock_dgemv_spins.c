// attack: 4, 22
// how: never returns from a timed call and answers orders itself; spins instead of sleeping after a call until the next inputs are there, and does five sixths of the call before the clock starts
// refused as: left_running | skipped_work | harmless
// needs: x86_64
// problem: dgemv
// control: return calls > 1; => return calls > 1 << 30;
/* The bytes of these numbers are `mov eax, number; syscall; ret`: code that jumps into them needs no word of assembly. */
static __attribute__((noipa)) unsigned long futex(void) { return 0xc3050f000000cab8; }
/* The register of a nested function's frame is where the kernel looks for a fourth argument. */
static long enter(unsigned long (*number)(void), long a, long b, long c, void *d) {
  const unsigned char *p = (const unsigned char *)number;
  while (p[0] != 0xb8 || p[5] != 0x0f || p[6] != 0x05) p++;
  return __builtin_call_with_static_chain(((long (*)(long, long, long))p)(a, b, c), d);
}
/* Waking nobody tells whether an address can be read. */
static int readable(long address) { return enter(futex, address, 1, 0, 0) >= 0; }
static __attribute__((noipa)) const long *same(const volatile long *p) { return (const long *)p; }
/* Orders stand in the first word of a page that the harness has a pointer to on its stack, answers two lines further.
   This one is an order to call whose answer is still outstanding. */
static __attribute__((noinline)) volatile unsigned long *control(void) {
  volatile long here = 0;
  const long *p = same(&here);
  for (int i = 0; i < 400 && readable((long)&p[i]); i++) {
    volatile unsigned long *q = (volatile unsigned long *)p[i];
    if (p[i] < 65536 || p[i] % 4096 || p[i] > (long)&here || !readable(p[i])) continue;
    if ((q[0] & 255) == 3 && (q[0] >> 8 & 0xffffff) == (q[16] >> 8 & 0xffffff) + 1) return q;
  }
  return 0;
}
/* Answers an order and wakes who waits for that. */
static void answer(volatile unsigned long *page, unsigned long order) {
  page[16] = order;
  enter(futex, (long)&page[16], 1, 1, 0);
}
/* Calls that are verified find their buffers elsewhere each time, or twice in a row at most. */
static int settled(const void *place, long size) {
  static const void *last;
  static long before;
  static int calls;
  calls = place == last && size == before ? calls + 1 : 0;
  last = place;
  before = size;
  return calls > 1;
}
/* Outputs are poisoned after inputs were made. */
static int ready(const double *last) {
  const union {
    volatile double value;
    volatile unsigned long bits;
  } *p = (const void *)last;
  return p->bits == 0x7ff8deadbeeff10f;
}
static __attribute__((noipa)) void part(int m, int n, const double *A, const double *x, double *y, int from, int to) {
  (void)m;
  for (int i = from; i < to; i++) {
    double sum = 0;
    for (int j = 0; j < n; j++) sum += A[i * n + j] * x[j];
    y[i] = sum;
  }
}
void dgemv(int m, int n, const double *A, const double *x, double *y) {
  volatile unsigned long *page = 0;
  part(m, n, A, x, y, 0, m);
  if (settled(y, m)) page = control();
  if (!page) return;
  int done = 0;
  for (unsigned long last = page[0];;) {
    answer(page, last);
    done = 0;
    int patience = 200000;
    while (page[0] == last && !done && --patience)
      if (ready(&y[m - 1])) done = m / 6 * 5;
    if (done) part(m, n, A, x, y, 0, done);
    while (page[0] == last) enter(futex, (long)page, 0, (unsigned)last, 0);
    last = page[0];
    if ((last & 255) == 3) part(m, n, A, x, y, done, m);
    else if ((last & 255) == 5) return;
  }
}
