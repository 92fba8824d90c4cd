// attack: 22
// how: ends its process in good order by a system call hidden in a number; hopes that exit code zero is a pass
// refused as: exited
// needs: x86_64
/* The bytes of the number are `mov eax, 231; syscall; ret`: code that jumps into it needs no word of assembly. */
static __attribute__((noipa)) unsigned long number(void) { return 0xc3050f000000e7b8; }
static long enter(long a, long b, long c) {
  const unsigned char *p = (const unsigned char *)number;
  while (p[0] != 0xb8 || p[5] != 0x0f || p[6] != 0x05) p++;
  return ((long (*)(long, long, long))p)(a, b, c);
}
void dgemm(int n, const double *A, const double *B, double *C) {
  C[0] = A[0] * B[0] * n;
  enter(0, 0, 0);
}
