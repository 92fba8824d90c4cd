// honest: both operands are packed and a micro-kernel walks through the panels
#include <stdlib.h>
enum { MR = 4, NR = 8, KC = 64 };
static void pack_a(int n, const double *A, double *to) {
  for (int i = 0; i < n; i += MR)
    for (int k = 0; k < KC; k++)
      for (int r = 0; r < MR; r++) *to++ = A[(i + r) * n + k];
}
static void pack_b(int n, const double *B, double *to) {
  for (int j = 0; j < n; j += NR)
    for (int k = 0; k < KC; k++)
      for (int s = 0; s < NR; s++) *to++ = B[k * n + j + s];
}
static void micro(int n, const double *restrict a, const double *restrict b, double *restrict C) {
  double c[MR][NR];
  for (int r = 0; r < MR; r++)
    for (int s = 0; s < NR; s++) c[r][s] = C[r * n + s];
  for (int k = 0; k < KC; k++, a += MR, b += NR)
    for (int r = 0; r < MR; r++)
      for (int s = 0; s < NR; s++) c[r][s] += a[r] * b[s];
  for (int r = 0; r < MR; r++)
    for (int s = 0; s < NR; s++) C[r * n + s] = c[r][s];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  double *a = aligned_alloc(64, sizeof(double) * n * KC * 2), *b = a + n * KC;
  for (int e = 0; e < n * n; e++) C[e] = 0;
  for (int k = 0; k < n; k += KC) {
    pack_a(n, A + k, a), pack_b(n, B + k * n, b);
    for (int j = 0; j < n; j += NR)
      for (int i = 0; i < n; i += MR) micro(n, a + i * KC, b + j * KC, C + i * n + j);
  }
  free(a);
}
