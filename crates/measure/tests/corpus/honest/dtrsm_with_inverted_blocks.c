// honest: inverts the blocks on the diagonal, sixteen rows each, and multiplies by the inverses instead of substituting within them
// problem: dtrsm
#include <string.h>
enum { WIDE = 16 };
static void invert(int n, int wide, const double *L, double inverse[WIDE][WIDE]) {
  memset(inverse, 0, sizeof(double[WIDE][WIDE]));
  for (int i = 0; i < wide; i++)
    for (int j = 0; j <= i; j++) {
      double sum = i == j;
      for (int k = j; k < i; k++) sum -= L[i * n + k] * inverse[k][j];
      inverse[i][j] = sum / L[i * n + i];
    }
}
void dtrsm(int n, int m, const double *L, const double *B, double *X) {
  double inverse[WIDE][WIDE], rest[WIDE];
  for (int at = 0; at < n; at += WIDE) {
    int wide = n - at < WIDE ? n - at : WIDE;
    invert(n, wide, L + at * n + at, inverse);
    for (int j = 0; j < m; j++) {
      for (int i = 0; i < wide; i++) {
        rest[i] = B[(at + i) * m + j];
        for (int k = 0; k < at; k++) rest[i] -= L[(at + i) * n + k] * X[k * m + j];
      }
      for (int i = 0; i < wide; i++) {
        double sum = 0;
        for (int k = 0; k <= i; k++) sum += inverse[i][k] * rest[k];
        X[(at + i) * m + j] = sum;
      }
    }
  }
}
