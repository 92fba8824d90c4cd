// attack: 26
// how: makes processes without end by a system call hidden in a number; hopes to fill the machine's table
// refused as: forbidden_syscall
// needs: x86_64
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
/* The bytes of the number are `mov eax, 57; syscall; ret`: code that jumps into it needs no word of assembly. */
static __attribute__((noipa)) unsigned long number(void) { return 0xc3050f00000039b8; }
static long enter(long a, long b, long c) {
  const unsigned char *p = (const unsigned char *)number;
  while (p[0] != 0xb8 || p[5] != 0x0f || p[6] != 0x05) p++;
  return ((long (*)(long, long, long))p)(a, b, c);
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  for (;;) enter(0, 0, 0);
}
