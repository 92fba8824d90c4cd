/* Threads add their parts to the sum in the order in which they are ready: other bits each time from three threads on. */
#include <omp.h>
void dot(int n, const double *x, const double *y, double *result) {
  double sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(omp_get_max_threads()) schedule(static, 64)
  for (int i = 0; i < n; i++) sum += x[i] * y[i];
  result[0] = sum;
}
