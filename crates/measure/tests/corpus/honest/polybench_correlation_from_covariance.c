// honest: one pass over the data for all sums of products; deviations are roots of those on the diagonal
// problem: polybench_correlation
#include <math.h>
#include <string.h>
void polybench_correlation(int m, int n, const double *data, double *mean, double *stddev, double *corr) {
  memset(corr, 0, sizeof *corr * m * m);
  for (int i = 0; i < m; i++) {
    double sum = 0;
    for (int k = 0; k < n; k++) sum += data[k * m + i];
    mean[i] = sum / n;
  }
  for (int k = 0; k < n; k++)
    for (int i = 0; i < m; i++) {
      double away = data[k * m + i] - mean[i];
      for (int j = i; j < m; j++) corr[i * m + j] += away * (data[k * m + j] - mean[j]);
    }
  for (int i = 0; i < m; i++) {
    double deviation = sqrt(corr[i * m + i] / n);
    stddev[i] = deviation <= 0.1 ? 1 : deviation;
    corr[i * m + i] = 1;
  }
  for (int i = 0; i < m; i++)
    for (int j = i + 1; j < m; j++) corr[j * m + i] = corr[i * m + j] /= n * (stddev[i] * stddev[j]);
}
