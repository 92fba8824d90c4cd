/* problem: polybench_correlation */
/* techniques: recomputation */
#include <math.h>
void polybench_correlation(int m, int n, const double *data, double *mean, double *stddev, double *corr) {
  for (int j = 0; j < m; j++) {
    mean[j] = 0;
    for (int i = 0; i < n; i++) mean[j] += data[i * m + j];
    mean[j] /= n;
  }
  for (int j = 0; j < m; j++) {
    stddev[j] = 0;
    for (int i = 0; i < n; i++) stddev[j] += (data[i * m + j] - mean[j]) * (data[i * m + j] - mean[j]);
    stddev[j] = sqrt(stddev[j] / n);
    if (stddev[j] <= 0.1) stddev[j] = 1;
  }
  for (int i = 0; i < m; i++) {
    corr[i * m + i] = 1;
    for (int j = i + 1; j < m; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++)
        sum += (data[k * m + i] - mean[i]) / (sqrt(n) * stddev[i]) * ((data[k * m + j] - mean[j]) / (sqrt(n) * stddev[j]));
      corr[i * m + j] = sum;
      corr[j * m + i] = sum;
    }
  }
}
