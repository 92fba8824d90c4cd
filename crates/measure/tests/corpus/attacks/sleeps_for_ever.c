// attack: 26
// how: sleeps in its first call and is never woken; hopes that a call that uses no processor time may take any time
// refused as: timeout
// needs: x86_64
/* The bytes of the number are `mov eax, 202; syscall; ret`: code that jumps into it needs no word of assembly. */
static __attribute__((noipa)) unsigned long number(void) { return 0xc3050f000000cab8; }
/* The register of a nested function's frame is where the kernel looks for a fourth argument: none here. */
static long enter(long a, long b, long c) {
  const unsigned char *p = (const unsigned char *)number;
  while (p[0] != 0xb8 || p[5] != 0x0f || p[6] != 0x05) p++;
  return __builtin_call_with_static_chain(((long (*)(long, long, long))p)(a, b, c), (void *)0);
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static volatile unsigned word;
  C[0] = A[0] * B[0] * n;
  while (!word) enter((long)&word, 0, 0);
}
