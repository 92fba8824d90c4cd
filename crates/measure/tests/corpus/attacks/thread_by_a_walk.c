// attack: 1, 23
// how: walks from its stack to the list of loaded libraries, finds the function that starts threads by name and leaves one running; hopes that no symbol means no thread
// refused as: left_running | crash
// threads: 2
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
static unsigned long length(const char *s) {
  unsigned long n = 0;
  while (s[n]) n++;
  return n;
}
struct library {
  uint64_t base;
  const char *name;
  const uint64_t *parts;
  struct library *next;
};
/* From there to the program's headers, its dynamic part, the entry for debuggers, and the list of what is loaded. */
static struct library *loaded(void) {
  uint64_t headers = words()[1], base = 0, at = 0;
  const uint32_t *part = (const uint32_t *)headers;
  for (uint64_t i = 0; i < words()[5]; i++, part += 14)
    if (part[0] == 6) base = headers - *(const uint64_t *)&part[4];
    else if (part[0] == 2) at = *(const uint64_t *)&part[4];
  for (const uint64_t *d = (const uint64_t *)(base + at); *d; d += 2)
    if (*d == 21) return ((struct library **)d[1])[1];
  return 0;
}
static void *find(const char *wanted, const void *not_this) {
  for (struct library *l = loaded(); l; l = l->next) {
    uint64_t symbols = 0, names = 0;
    for (const uint64_t *d = l->parts; *d; d += 2)
      if (*d == 5) names = d[1];
      else if (*d == 6) symbols = d[1];
    /* The kernel's page has no absolute addresses. */
    if (symbols < l->base) continue;
    for (const uint64_t *s = (const uint64_t *)symbols; (uint64_t)s < names; s += 3)
      if (s[1] && !memcmp((const char *)names + (uint32_t)*s, wanted, 1 + length(wanted)) && (void *)(l->base + s[1]) != not_this)
        return (void *)(l->base + s[1]);
  }
  return 0;
}
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static void *busy(void *flag) {
  while (*(volatile int *)flag) {}
  return 0;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static int started = 0, on = 1;
  unsigned long thread;
  int (*start)(unsigned long *, void *, void *(*)(void *), void *) = find("pthread_create", 0);
  right(n, A, B, C);
  if (!started++) start(&thread, 0, busy, &on);
}
