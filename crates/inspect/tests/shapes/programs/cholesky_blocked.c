/* problem: cholesky */
/* techniques: loop_reorder+cache_blocking */
#include <math.h>
#define NB 48
static int least(int a, int b) { return a < b ? a : b; }
static void diagonal(int n, double *L, int from, int to) {
  for (int j = from; j < to; j++) {
    double sum = L[j * n + j];
    for (int k = from; k < j; k++) sum -= L[j * n + k] * L[j * n + k];
    L[j * n + j] = sqrt(sum);
    for (int i = j + 1; i < to; i++) {
      double s = L[i * n + j];
      for (int k = from; k < j; k++) s -= L[i * n + k] * L[j * n + k];
      L[i * n + j] = s / L[j * n + j];
    }
  }
}
static void solve(int n, double *L, int from, int to) {
  for (int i = to; i < n; i++)
    for (int j = from; j < to; j++) {
      double s = L[i * n + j];
      for (int k = from; k < j; k++) s -= L[i * n + k] * L[j * n + k];
      L[i * n + j] = s / L[j * n + j];
    }
}
static void update(int n, double *L, int from, int to) {
  for (int i = to; i < n; i++)
    for (int j = to; j <= i; j++) {
      double s = 0;
      for (int k = from; k < to; k++) s += L[i * n + k] * L[j * n + k];
      L[i * n + j] -= s;
    }
}
void cholesky(int n, const double *A, double *L) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) L[i * n + j] = j <= i ? A[i * n + j] : 0;
  for (int k = 0; k < n; k += NB) {
    int end = least(k + NB, n);
    diagonal(n, L, k, end);
    solve(n, L, k, end);
    update(n, L, k, end);
  }
}
