/* problem: black_scholes */
/* techniques: fission */
#include <math.h>
#include <stdlib.h>
void black_scholes(int n, const double *spot, const double *strike, const double *years, double *call, double *put) {
  double *due = malloc(sizeof(double) * n);
  if (!due) abort();
  for (int i = 0; i < n; i++) due[i] = strike[i] * exp(-0.02 * years[i]);
  for (int i = 0; i < n; i++) {
    double deviation = 0.3 * sqrt(years[i]);
    double d1 = (log(spot[i] / strike[i]) + 0.065 * years[i]) / deviation, d2 = d1 - deviation;
    call[i] = spot[i] * erfc(-d1 / sqrt(2)) / 2 - due[i] * erfc(-d2 / sqrt(2)) / 2;
    put[i] = due[i] * erfc(d2 / sqrt(2)) / 2 - spot[i] * erfc(d1 / sqrt(2)) / 2;
  }
  free(due);
}
