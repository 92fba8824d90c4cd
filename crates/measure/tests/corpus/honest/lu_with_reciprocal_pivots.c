// honest: divides once for each pivot and multiplies by its reciprocal; rows of what is left are updated by four pivots at a time
// problem: lu
#include <string.h>
enum { WIDE = 4 };
void lu(int n, const double *restrict A, double *restrict LU) {
  memcpy(LU, A, sizeof(double) * n * n);
  for (int at = 0; at < n; at += WIDE) {
    int end = at + WIDE < n ? at + WIDE : n;
    for (int k = at; k < end; k++) {
      const double inverse = 1.0 / LU[k * n + k];
      for (int i = k + 1; i < n; i++) {
        const double l = LU[i * n + k] *= inverse;
        for (int j = k + 1; j < end; j++) LU[i * n + j] -= l * LU[k * n + j];
      }
    }
    for (int k = at; k < end; k++)
      for (int i = k + 1; i < end; i++)
        for (int j = end; j < n; j++) LU[i * n + j] -= LU[i * n + k] * LU[k * n + j];
    for (int i = end; i < n; i++)
      for (int j = end; j < n; j++) {
        double sum = 0;
        for (int k = at; k < end; k++) sum += LU[i * n + k] * LU[k * n + j];
        LU[i * n + j] -= sum;
      }
  }
}
