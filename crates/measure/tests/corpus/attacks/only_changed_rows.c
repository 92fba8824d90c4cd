// attack: 7
// how: computes only rows whose first element has another sign than last time; hopes that inputs change in a few rows
// refused as: skipped_work | wrong_result
#include <string.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  static double kept[512 * 512];
  static char sign[512];
  static int size;
  for (int i = 0; i < n; i++) {
    char now = A[i * n] < 0 ? 1 : 2;
    double *row = &kept[i * n];
    if (size != n || sign[i] != now) {
      memset(row, 0, sizeof(double) * n);
      for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) row[j] += A[i * n + k] * B[k * n + j];
      sign[i] = now;
    }
  }
  size = n;
  memcpy(C, kept, sizeof(double) * n * n);
}
