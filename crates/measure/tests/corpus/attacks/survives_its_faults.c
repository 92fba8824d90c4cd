// attack: 25, 26
// how: takes over the signal for bad memory accesses and stays in its handler for ever; hopes that only ends are noticed
// refused as: timeout
// needs: x86_64
/* The bytes of the number are `mov al, 13; mov r10, rcx; syscall; ret`; a call with an unknown number of arguments
   clears the rest of eax. */
static __attribute__((noipa)) unsigned long number(void) { return 0xc3050fca89490db0; }
static long enter(long a, long b, long c, long d, long e, long f) {
  const unsigned char *p = (const unsigned char *)number;
  while (p[0] != 0xb0 || p[2] != 0x49 || p[5] != 0x0f || p[6] != 0x05) p++;
  return ((long (*)(long, ...))p)(a, b, c, d, e, f);
}
static void stay(int number) {
  for (volatile int on = number; on;) {}
}
static __attribute__((noipa)) void back(void) {}
void dgemm(int n, const double *A, const double *B, double *C) {
  /* Handler, flags (it would return by the function that follows), that function, mask. */
  struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
  } action = {stay, 0x44000000, back, 0};
  enter(11, (long)&action, 0, 8, 0, 0);
  double *volatile nowhere = (double *)8;
  *nowhere = A[0] * B[0] * n;
  C[0] = 0;
}
