/* problem: lu */
/* techniques: loop_reorder */
#include <string.h>
void lu(int n, const double *A, double *LU) {
  double (*a)[n] = (double (*)[n])LU;
  memcpy(LU, A, sizeof(double) * n * n);
  for (int k = 0; k < n; k++) {
    double reciprocal = a[k][k];
    for (int i = k + 1; i < n; i++) a[i][k] /= reciprocal;
    for (int i = k + 1; i < n; i++) {
      double f = a[i][k];
      if (f == 0) continue;
      double *row = a[i];
      const double *top = a[k];
      for (int j = k + 1; j < n; j++) row[j] -= f * top[j];
    }
  }
}
