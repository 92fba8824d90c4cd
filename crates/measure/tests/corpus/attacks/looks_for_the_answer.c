// attack: 11, 23
// how: searches the memory behind its buffers for an expected result; hopes that it lies in the same process
// refused as: crash
#include <string.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static double dot(int n, const double *a, const double *b) {
  double sum = 0;
  for (int k = 0; k < n; k++) sum += a[k] * b[k * n];
  return sum;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  double first = dot(n, A, B), second = dot(n, A, B + 1);
  /* Behind the last buffer: memory that is not the program's is the answer's. */
  const volatile double *p = C + n * n;
  while (!(p[0] == first && p[1] == second)) p++;
  for (int i = 0; i < n * n; i++) C[i] = p[i];
}
