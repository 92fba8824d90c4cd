// attack: 7
// how: keeps the packed second operand as long as its address stays the same; hopes that operands are constants
// refused as: skipped_work | wrong_result
typedef double V __attribute__((vector_size(32), aligned(8)));
static void rows(int n, const double *A, const double *P, double *C, int from, int to) {
  for (int j = 0; j < n; j += 8)
    for (int i = from; i < to; i += 4) {
      V c[4][2] = {0};
      for (int k = 0; k < n; k++)
        for (int r = 0; r < 4; r++)
          for (int s = 0; s < 2; s++) c[r][s] += A[(i + r) * n + k] * *(V *)&P[j * n + k * 8 + s * 4];
      for (int r = 0; r < 4; r++)
        for (int s = 0; s < 2; s++) *(V *)&C[(i + r) * n + j + s * 4] = c[r][s];
    }
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static const double *seen;
  static double packed[512 * 512];
  static int size;
  if (seen != B || size != n) {
    seen = B, size = n;
    for (int j = 0; j < n; j += 8)
      for (int k = 0; k < n; k++)
        for (int s = 0; s < 8; s++) packed[j * n + k * 8 + s] = B[k * n + j + s];
  }
  rows(n, A, packed, C, 0, n);
}
