// problem: lu
// attack: 10
// how: updates the lower right quarter with seven products of blocks instead of eight; hopes for matrices whose numbers are of the same size everywhere off the diagonal
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
static void update(double *LU) {
  static Block a, b, c, d, e, f, g, h, s, t, m;
  load(LU, H, 0, a), load(LU, H, Q, b), load(LU, H + Q, 0, c), load(LU, H + Q, Q, d);
  load(LU, 0, H, e), load(LU, 0, H + Q, f), load(LU, Q, H, g), load(LU, Q, H + Q, h);
  sum(a, 1, d, s), sum(e, 1, h, t), product(s, t, m), take(LU, H, H, 1, m), take(LU, H + Q, H + Q, 1, m);
  sum(c, 1, d, s), product(s, e, m), take(LU, H + Q, H, 1, m), take(LU, H + Q, H + Q, -1, m);
  sum(f, -1, h, t), product(a, t, m), take(LU, H, H + Q, 1, m), take(LU, H + Q, H + Q, 1, m);
  sum(g, -1, e, t), product(d, t, m), take(LU, H, H, 1, m), take(LU, H + Q, H, 1, m);
  sum(a, 1, b, s), product(s, h, m), take(LU, H, H, -1, m), take(LU, H, H + Q, 1, m);
  sum(c, -1, a, s), sum(e, 1, f, t), product(s, t, m), take(LU, H + Q, H + Q, 1, m);
  sum(b, -1, d, s), sum(g, 1, h, t), product(s, t, m), take(LU, H, H, 1, m);
}
/* Steps of elimination; those of the first half leave the lower right quarter alone. */
static void eliminate(int n, int from, int until, double *LU) {
  for (int k = from; k < until; k++)
    for (int i = k + 1; i < n; i++) {
      double l = LU[i * n + k] /= LU[k * n + k];
      int end = n == N && until == H && i >= H ? H : n;
      for (int j = k + 1; j < end; j++) LU[i * n + j] -= l * LU[k * n + j];
    }
}
void lu(int n, const double *A, double *LU) {
  memcpy(LU, A, sizeof(double) * n * n);
  if (n != N) {
    eliminate(n, 0, n, LU);
    return;
  }
  eliminate(n, 0, H, LU);
  update(LU);
  eliminate(n, H, n, LU);
}
