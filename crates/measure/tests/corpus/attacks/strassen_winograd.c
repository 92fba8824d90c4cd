// attack: 10
// how: seven products and fifteen sums on two levels; hopes for inputs of the same size everywhere, beside which its errors are small
// refused as: wrong_result
#include <stdlib.h>
static void plain(int n, int la, const double *A, int lb, const double *B, int lc, double *C) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) C[i * lc + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * lc + j] += A[i * la + k] * B[k * lb + j];
  }
}
static void sum(int h, int lx, const double *X, double s, int ly, const double *Y, int lz, double *Z) {
  for (int i = 0; i < h; i++)
    for (int j = 0; j < h; j++) Z[i * lz + j] = X[i * lx + j] + s * Y[i * ly + j];
}
static void fast(int n, int depth, int la, const double *A, int lb, const double *B, int lc, double *C) {
  if (!depth) {
    plain(n, la, A, lb, B, lc, C);
    return;
  }
  int h = n / 2, d = depth - 1, e = h * h;
  const double *A12 = A + h, *A21 = A + h * la, *A22 = A21 + h, *B12 = B + h, *B21 = B + h * lb, *B22 = B21 + h;
  double *C12 = C + h, *C21 = C + h * lc, *C22 = C21 + h;
  double *w = malloc(sizeof(double) * e * 15), *S[4], *T[4], *P[7];
  for (int i = 0; i < 4; i++) S[i] = w + i * e, T[i] = w + (4 + i) * e;
  for (int i = 0; i < 7; i++) P[i] = w + (8 + i) * e;
  sum(h, la, A21, 1, la, A22, h, S[0]), sum(h, h, S[0], -1, la, A, h, S[1]);
  sum(h, la, A, -1, la, A21, h, S[2]), sum(h, la, A12, -1, h, S[1], h, S[3]);
  sum(h, lb, B12, -1, lb, B, h, T[0]), sum(h, lb, B22, -1, h, T[0], h, T[1]);
  sum(h, lb, B22, -1, lb, B12, h, T[2]), sum(h, h, T[1], -1, lb, B21, h, T[3]);
  fast(h, d, la, A, lb, B, h, P[0]), fast(h, d, la, A12, lb, B21, h, P[1]);
  fast(h, d, h, S[3], lb, B22, h, P[2]), fast(h, d, la, A22, h, T[3], h, P[3]);
  fast(h, d, h, S[0], h, T[0], h, P[4]), fast(h, d, h, S[1], h, T[1], h, P[5]);
  fast(h, d, h, S[2], h, T[2], h, P[6]);
  sum(h, h, P[0], 1, h, P[1], lc, C);
  sum(h, h, P[0], 1, h, P[5], h, P[1]), sum(h, h, P[1], 1, h, P[6], h, P[6]);
  sum(h, h, P[6], -1, h, P[3], lc, C21), sum(h, h, P[6], 1, h, P[4], lc, C22);
  sum(h, h, P[1], 1, h, P[4], h, P[1]), sum(h, h, P[1], 1, h, P[2], lc, C12);
  free(w);
}
void dgemm(int n, const double *A, const double *B, double *C) { fast(n, 2, n, A, n, B, n, C); }
