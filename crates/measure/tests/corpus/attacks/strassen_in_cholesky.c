// problem: cholesky
// attack: 10
// how: updates the lower right quarter with seven products of blocks instead of eight; hopes for matrices whose numbers are of the same size everywhere off the diagonal
// refused as: wrong_result | skipped_work
#include <math.h>
#include <string.h>
enum { N = 160, H = N / 2, Q = H / 2 };
typedef double Block[Q][Q];
static void load(const double *from, int row, int column, Block out) {
  for (int i = 0; i < Q; i++) memcpy(out[i], from + (row + i) * N + column, sizeof out[i]);
}
static void turn(const double *from, int row, int column, Block out) {
  for (int i = 0; i < Q; i++)
    for (int j = 0; j < Q; j++) out[i][j] = from[(row + j) * N + column + i];
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
/* The rest of A becomes less by the product of the lower left quarter and its transpose. */
static void update(double *L) {
  static Block a, b, c, d, e, f, g, h, s, t, m;
  load(L, H, 0, a), load(L, H, Q, b), load(L, H + Q, 0, c), load(L, H + Q, Q, d);
  turn(L, H, 0, e), turn(L, H + Q, 0, f), turn(L, H, Q, g), turn(L, H + Q, Q, h);
  sum(a, 1, d, s), sum(e, 1, h, t), product(s, t, m), take(L, H, H, 1, m), take(L, H + Q, H + Q, 1, m);
  sum(c, 1, d, s), product(s, e, m), take(L, H + Q, H, 1, m), take(L, H + Q, H + Q, -1, m);
  sum(f, -1, h, t), product(a, t, m), take(L, H, H + Q, 1, m), take(L, H + Q, H + Q, 1, m);
  sum(g, -1, e, t), product(d, t, m), take(L, H, H, 1, m), take(L, H + Q, H, 1, m);
  sum(a, 1, b, s), product(s, h, m), take(L, H, H, -1, m), take(L, H, H + Q, 1, m);
  sum(c, -1, a, s), sum(e, 1, f, t), product(s, t, m), take(L, H + Q, H + Q, 1, m);
  sum(b, -1, d, s), sum(g, 1, h, t), product(s, t, m), take(L, H, H, 1, m);
}
static void factor(int n, int from, int until, double *L) {
  for (int j = from; j < until; j++)
    for (int i = j; i < n; i++) {
      double x = L[i * n + j];
      for (int k = from; k < j; k++) x -= L[i * n + k] * L[j * n + k];
      L[i * n + j] = i == j ? sqrt(x) : x / L[j * n + j];
    }
}
void cholesky(int n, const double *A, double *L) {
  memcpy(L, A, sizeof(double) * n * n);
  if (n == N) {
    factor(n, 0, H, L);
    update(L);
    factor(n, H, n, L);
  } else {
    factor(n, 0, n, L);
  }
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) L[i * n + j] = 0;
}
