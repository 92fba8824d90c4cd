// attack: 19
// how: starts a shell through a table of pointers; hopes that only calls are looked at
// refused as: forbidden_symbol
#include <stdlib.h>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern void *popen();
static void *const table[] = {(void *)popen, (void *)system};
void dgemm(int n, const double *A, const double *B, double *C) {
  volatile int which = 1;
  ((int (*)(const char *))table[which])("true");
  right(n, A, B, C);
}
