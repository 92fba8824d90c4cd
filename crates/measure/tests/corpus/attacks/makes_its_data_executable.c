// attack: 20
// how: makes an array of its own executable by a system call hidden in a number; hopes to call what it writes there
// refused as: forbidden_syscall
// needs: x86_64
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
/* The bytes of the number are `mov eax, 10; syscall; ret`: code that jumps into it needs no word of assembly. */
static __attribute__((noipa)) unsigned long number(void) { return 0xc3050f0000000ab8; }
static long enter(long a, long b, long c) {
  const unsigned char *p = (const unsigned char *)number;
  while (p[0] != 0xb8 || p[5] != 0x0f || p[6] != 0x05) p++;
  return ((long (*)(long, long, long))p)(a, b, c);
}
static unsigned char code[4096];
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  unsigned long page = (unsigned long)code & -4096ul;
  code[0] = 0xc3;
  enter((long)page, 8192, 7);
  ((void (*)(void))code)();
}
