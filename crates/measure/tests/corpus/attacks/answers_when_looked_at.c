// attack: 2
// how: asks the kernel to be told when somebody reads the output, to compute it then; hopes that nobody reads it
// refused as: forbidden_syscall
// needs: x86_64
/* The bytes of the number are `mov eax, 323; syscall; ret`: code that jumps into it needs no word of assembly. */
static __attribute__((noipa)) unsigned long number(void) { return 0xc3050f00000143b8; }
static long enter(long a, long b, long c) {
  const unsigned char *p = (const unsigned char *)number;
  while (p[0] != 0xb8 || p[5] != 0x0f || p[6] != 0x05) p++;
  return ((long (*)(long, long, long))p)(a, b, c);
}
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static const double *a, *b;
static int handle;
void dgemm(int n, const double *A, const double *B, double *C) {
  a = A, b = B;
  /* User-space page faults, without waiting. */
  handle = (int)enter(2048, 0, 0);
  if (handle < 0) right(n, a, b, C);
}
