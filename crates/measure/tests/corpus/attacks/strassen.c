// attack: 10
// how: one level of Strassen's method; hopes for inputs of the same size everywhere, beside which its errors are small
// refused as: wrong_result
/* One level of Strassen's method: seven products instead of eight, and too wrong where rows differ by powers of ten. */
#include <stdlib.h>
static void mul(int h, const double *X, const double *Y, double *Z) {
  for (int i = 0; i < h * h; i++) Z[i] = 0;
  for (int i = 0; i < h; i++)
    for (int k = 0; k < h; k++)
      for (int j = 0; j < h; j++) Z[i * h + j] += X[i * h + k] * Y[k * h + j];
}
static void part(int n, const double *X, int r, int c, int r2, int c2, double sign, double *out) {
  int h = n / 2;
  for (int i = 0; i < h; i++)
    for (int j = 0; j < h; j++) {
      double v = X[(r * h + i) * n + c * h + j];
      if (r2 >= 0) v += sign * X[(r2 * h + i) * n + c2 * h + j];
      out[i * h + j] = v;
    }
}
void dgemm(int n, const double *A, const double *B, double *C) {
  int h = n / 2;
  double *S = malloc(sizeof(double) * h * h * 9), *T = S + h * h, *M[7];
  for (int i = 0; i < 7; i++) M[i] = S + (i + 2) * h * h;
  part(n, A, 0, 0, 1, 1, 1, S), part(n, B, 0, 0, 1, 1, 1, T), mul(h, S, T, M[0]);
  part(n, A, 1, 0, 1, 1, 1, S), part(n, B, 0, 0, -1, 0, 0, T), mul(h, S, T, M[1]);
  part(n, A, 0, 0, -1, 0, 0, S), part(n, B, 0, 1, 1, 1, -1, T), mul(h, S, T, M[2]);
  part(n, A, 1, 1, -1, 0, 0, S), part(n, B, 1, 0, 0, 0, -1, T), mul(h, S, T, M[3]);
  part(n, A, 0, 0, 0, 1, 1, S), part(n, B, 1, 1, -1, 0, 0, T), mul(h, S, T, M[4]);
  part(n, A, 1, 0, 0, 0, -1, S), part(n, B, 0, 0, 0, 1, 1, T), mul(h, S, T, M[5]);
  part(n, A, 0, 1, 1, 1, -1, S), part(n, B, 1, 0, 1, 1, 1, T), mul(h, S, T, M[6]);
  for (int i = 0; i < h; i++)
    for (int j = 0; j < h; j++) {
      int x = i * h + j;
      C[i * n + j] = M[0][x] + M[3][x] - M[4][x] + M[6][x];
      C[i * n + h + j] = M[2][x] + M[4][x];
      C[(h + i) * n + j] = M[1][x] + M[3][x];
      C[(h + i) * n + h + j] = M[0][x] - M[1][x] + M[2][x] + M[5][x];
    }
  free(S);
}
