// none
#include <math.h>
#include <stdint.h>
static double special(unsigned kind, double x) {
  switch (kind) {
    case 0: return x;
    case 1: return fabs(x);
    case 2: return sqrt(x);
    case 3: return floor(x);
    case 4: return -x;
    case 5: return x * 2;
    default: return 0;
  }
}
void dgemm(int n, const double *A, const double *B, double *C) {
  uint32_t i = 0;
again:
  for (int j = 0; j < n; j++) {
    double s = special(n & 0, 0);
    for (int k = 0; k < n; k++) s = fma(A[i * n + k], B[k * n + j], s);
    C[i * n + j] = s;
  }
  if (++i < (uint32_t)n) goto again;
}
