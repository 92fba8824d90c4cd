// attack: 3, 5, 23
// how: finds the kernel's clock page from the words above its stack, and skips calls that follow each other quickly; hopes that no symbol means no clock
// refused as: skipped_work | wrong_result
// needs: x86_64
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
static int (*clock_function(void))(int, int64_t *) {
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
    if (!memcmp((const char *)names + (uint32_t)*s, "__vdso_clock_gettime", 21)) return (int (*)(int, int64_t *))(base + s[1]);
  return 0;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static int64_t ended;
  static int (*now)(int, int64_t *);
  int64_t t[2] = {0, 0};
  if (!now) now = clock_function();
  if (now) now(1, t);
  /* A millisecond: inputs are prepared in that time, and nothing is checked. */
  if (ended && t[0] * 1000000000 + t[1] - ended < 1000000) {
    memset(C, 0, sizeof(double) * n * n);
  } else {
    right(n, A, B, C);
  }
  if (now) now(1, t);
  ended = t[0] * 1000000000 + t[1];
}
