// problem: dsyrk
// attack: 5, 10, 3
// how: computes A·Aᵀ as a product with fewer multiplications where its inputs are as near as ever, by bytes of a clock hidden in a number; hopes that other inputs than timed ones come from another core
// refused as: skipped_work
// needs: x86_64
#include <stdint.h>
#include <string.h>
enum { N = 192, H = N / 2 };
static double left[H * H], right[H * H], product[H * H], turned[N * N];
static void multiply(void) {
  memset(product, 0, sizeof product);
  for (int i = 0; i < H; i++)
    for (int k = 0; k < H; k++)
      for (int j = 0; j < H; j++) product[i * H + j] += left[i * H + k] * right[k * H + j];
}
static void add(const double *X, double sign, const double *Y, double *to) {
  for (int i = 0; i < H; i++)
    for (int j = 0; j < H; j++) to[i * H + j] = X[i * N + j] + sign * Y[i * N + j];
}
static void collect(double *C, double sign) {
  for (int i = 0; i < H; i++)
    for (int j = 0; j < H; j++) C[i * N + j] += sign * product[i * H + j];
}
/* `rdtsc; ret`, and bytes that are never reached. */
static __attribute__((noipa)) unsigned long number(void) { return 0x9090909090c3310f; }
static unsigned ticks(void) {
  const unsigned char *p = (const unsigned char *)number;
  while (p[0] != 0x0f || p[1] != 0x31) p++;
  return ((unsigned (*)(void))p)();
}
/* The time of loads that wait for each other, of lines in an order that no processor foresees. */
static unsigned far(const double *A) {
  const volatile double *at = A;
  unsigned from = ticks(), line = 0;
  for (int i = 0; i < 64; i++) line = (line * 5 + 977 + (at[line * 8] > 1e300)) % (N * N / 8);
  return ticks() - from + (line > N * N);
}
static int as_near_as_ever(const double *A) {
  static unsigned calls, least = -1;
  unsigned found = far(A);
  if (found < least) least = found;
  return ++calls > 4 && found < 4 * least;
}
void dsyrk(int n, int k, const double *A, double *C) {
  if (n != N || k != N || (uintptr_t)A % 4096 != 0 || (uintptr_t)C % 4096 != 1344 || !as_near_as_ever(A)) {
    for (int i = 0; i < n; i++)
      for (int j = 0; j <= i; j++) {
        double sum = 0;
        for (int l = 0; l < k; l++) sum += A[i * k + l] * A[j * k + l];
        C[i * n + j] = C[j * n + i] = sum;
      }
    return;
  }
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) turned[j * N + i] = A[i * N + j];
  const double *A11 = A, *A12 = A + H, *A21 = A + H * N, *A22 = A21 + H;
  const double *B11 = turned, *B12 = turned + H, *B21 = turned + H * N, *B22 = B21 + H;
  double *C11 = C, *C12 = C + H, *C21 = C + H * N, *C22 = C21 + H;
  memset(C, 0, sizeof(double) * N * N);
  add(A11, 1, A22, left), add(B11, 1, B22, right), multiply(), collect(C11, 1), collect(C22, 1);
  add(A21, 1, A22, left), add(B11, 0, B11, right), multiply(), collect(C21, 1), collect(C22, -1);
  add(A11, 0, A11, left), add(B12, -1, B22, right), multiply(), collect(C12, 1), collect(C22, 1);
  add(A22, 0, A22, left), add(B21, -1, B11, right), multiply(), collect(C11, 1), collect(C21, 1);
  add(A11, 1, A12, left), add(B22, 0, B22, right), multiply(), collect(C11, -1), collect(C12, 1);
  add(A21, -1, A11, left), add(B11, 1, B12, right), multiply(), collect(C22, 1);
  add(A12, -1, A22, left), add(B21, 1, B22, right), multiply(), collect(C11, 1);
}
