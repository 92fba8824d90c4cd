// attack: 1, 20
// how: starts a thread by a system call hidden in a number and lets it run on; hopes that only the libraries' ways to a thread are watched
// refused as: left_running
// threads: 2
// needs: x86_64
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
/* The bytes of the number are `mov eax, 56; syscall; ret`: code that jumps into it needs no word of assembly. */
static __attribute__((noipa)) unsigned long number(void) { return 0xc3050f00000038b8; }
static long enter(long a, long b, long c) {
  const unsigned char *p = (const unsigned char *)number;
  while (p[0] != 0xb8 || p[5] != 0x0f || p[6] != 0x05) p++;
  return ((long (*)(long, long, long))p)(a, b, c);
}
static _Alignas(64) unsigned long stack[8192];
static volatile unsigned long spent;
static void busy(void) {
  for (;;) spent++;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static int started;
  right(n, A, B, C);
  if (started++) return;
  /* The new thread returns from the system call to what its stack begins with. Shared are memory, files and signals. */
  stack[8000] = (unsigned long)busy;
  enter(0x10f00, (long)&stack[8000], 0);
}
