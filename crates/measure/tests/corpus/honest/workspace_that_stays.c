// honest: a workspace that grows when it must and is kept from call to call
#include <stdlib.h>
static double *workspace;
static size_t room;
static double *at_least(size_t count) {
  if (count > room) {
    workspace = realloc(workspace, count * sizeof *workspace);
    room = count;
  }
  return workspace;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  double *t = at_least((size_t)n * n);
  for (int k = 0; k < n; k++)
    for (int j = 0; j < n; j++) t[j * n + k] = B[k * n + j];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double s[4] = {0};
      for (int k = 0; k < n; k += 4)
        for (int q = 0; q < 4; q++) s[q] += A[i * n + k + q] * t[j * n + k + q];
      C[i * n + j] = (s[0] + s[1]) + (s[2] + s[3]);
    }
}
