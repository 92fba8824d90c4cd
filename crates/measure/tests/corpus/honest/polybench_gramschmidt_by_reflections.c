// honest: reflects columns onto axes (Householder), then makes Q of the reflections, with signs that R's diagonal asks for
// problem: polybench_gramschmidt
#include <math.h>
#include <stdlib.h>
#include <string.h>
void polybench_gramschmidt(int n, int extra, const double *A, double *R, double *Q) {
  int m = n + extra;
  double *w = malloc(sizeof *w * m * n), *tau = malloc(sizeof *tau * n), *sum = malloc(sizeof *sum * n);
  if (!w || !tau || !sum) abort();
  memcpy(w, A, sizeof *w * m * n);
  for (int k = 0; k < n; k++) {
    double square = 0;
    for (int i = k; i < m; i++) square += w[i * n + k] * w[i * n + k];
    double norm = w[k * n + k] > 0 ? -sqrt(square) : sqrt(square), first = w[k * n + k] - norm;
    tau[k] = -first / norm;
    for (int i = k + 1; i < m; i++) w[i * n + k] /= first;
    w[k * n + k] = norm;
    for (int j = k + 1; j < n; j++) sum[j] = w[k * n + j];
    for (int i = k + 1; i < m; i++)
      for (int j = k + 1; j < n; j++) sum[j] += w[i * n + k] * w[i * n + j];
    for (int j = k + 1; j < n; j++) w[k * n + j] -= tau[k] * sum[j];
    for (int i = k + 1; i < m; i++)
      for (int j = k + 1; j < n; j++) w[i * n + j] -= w[i * n + k] * (tau[k] * sum[j]);
  }
  memset(Q, 0, sizeof *Q * m * n);
  for (int k = n - 1; k >= 0; k--) {
    Q[k * n + k] = 1;
    for (int j = k; j < n; j++) sum[j] = Q[k * n + j];
    for (int i = k + 1; i < m; i++)
      for (int j = k; j < n; j++) sum[j] += w[i * n + k] * Q[i * n + j];
    for (int j = k; j < n; j++) Q[k * n + j] -= tau[k] * sum[j];
    for (int i = k + 1; i < m; i++)
      for (int j = k; j < n; j++) Q[i * n + j] -= w[i * n + k] * (tau[k] * sum[j]);
  }
  for (int k = 0; k < n; k++) {
    double sign = w[k * n + k] < 0 ? -1 : 1;
    for (int j = 0; j < n; j++) R[k * n + j] = j < k ? 0 : sign * w[k * n + j];
    for (int i = 0; i < m; i++) Q[i * n + k] *= sign;
  }
  free(w);
  free(tau);
  free(sum);
}
