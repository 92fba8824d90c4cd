// problem: dtrsm
// attack: 10
// how: takes the upper half of the solution out of the lower half's right-hand sides with seven products of blocks instead of eight; hopes for numbers of the same size everywhere off the diagonal
// refused as: wrong_result | skipped_work
#include <string.h>
enum { N = 128, H = N / 2, Q = H / 2 };
typedef double Block[Q][Q];
static void load(const double *from, int row, int column, Block out) {
  for (int i = 0; i < Q; i++) memcpy(out[i], from + (row + i) * N + column, sizeof out[i]);
}
static void sum(Block x, double sign, Block y, Block out) {
  for (int i = 0; i < Q; i++)
    for (int j = 0; j < Q; j++) out[i][j] = x[i][j] + sign * y[i][j];
}
static void product(Block x, Block y, Block out) {
  memset(out, 0, sizeof(Block));
  for (int i = 0; i < Q; i++)
    for (int k = 0; k < Q; k++)
      for (int j = 0; j < Q; j++) out[i][j] += x[i][k] * y[k][j];
}
static void take(double *to, int row, int column, double sign, Block x) {
  for (int i = 0; i < Q; i++)
    for (int j = 0; j < Q; j++) to[(row + i) * N + column + j] -= sign * x[i][j];
}
static void update(const double *L, double *X, int column) {
  static Block a, b, c, d, e, f, g, h, s, t, m;
  int next = column + Q;
  load(L, H, 0, a), load(L, H, Q, b), load(L, H + Q, 0, c), load(L, H + Q, Q, d);
  load(X, 0, column, e), load(X, 0, next, f), load(X, Q, column, g), load(X, Q, next, h);
  sum(a, 1, d, s), sum(e, 1, h, t), product(s, t, m), take(X, H, column, 1, m), take(X, H + Q, next, 1, m);
  sum(c, 1, d, s), product(s, e, m), take(X, H + Q, column, 1, m), take(X, H + Q, next, -1, m);
  sum(f, -1, h, t), product(a, t, m), take(X, H, next, 1, m), take(X, H + Q, next, 1, m);
  sum(g, -1, e, t), product(d, t, m), take(X, H, column, 1, m), take(X, H + Q, column, 1, m);
  sum(a, 1, b, s), product(s, h, m), take(X, H, column, -1, m), take(X, H, next, 1, m);
  sum(c, -1, a, s), sum(e, 1, f, t), product(s, t, m), take(X, H + Q, next, 1, m);
  sum(b, -1, d, s), sum(g, 1, h, t), product(s, t, m), take(X, H, column, 1, m);
}
static void substitute(int n, int m, int from, int until, int first, const double *L, double *X) {
  for (int i = from; i < until; i++) {
    for (int k = first; k < i; k++)
      for (int j = 0; j < m; j++) X[i * m + j] -= L[i * n + k] * X[k * m + j];
    for (int j = 0; j < m; j++) X[i * m + j] /= L[i * n + i];
  }
}
void dtrsm(int n, int m, const double *L, const double *B, double *X) {
  memcpy(X, B, sizeof(double) * n * m);
  if (n != N || m != N) {
    substitute(n, m, 0, n, 0, L, X);
    return;
  }
  substitute(n, m, 0, H, 0, L, X);
  update(L, X, 0);
  update(L, X, H);
  substitute(n, m, H, N, H, L, X);
}
