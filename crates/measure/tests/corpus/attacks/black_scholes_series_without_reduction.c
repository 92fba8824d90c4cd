// attack: 10, 13
// how: an exponential by eight terms of its series, which is exact for the small discounts of a year or two
// refused as: wrong_result
// problem: black_scholes
#include <math.h>
static double discount(double t) {
  double sum = 1;
  for (int i = 7; i > 0; i--) sum = 1 + sum * t / i;
  return sum;
}
void black_scholes(int n, const double *spot, const double *strike, const double *years, double *call, double *put) {
  for (int i = 0; i < n; i++) {
    double deviation = 0.3 * sqrt(years[i]), due = strike[i] * discount(-0.02 * years[i]);
    double d1 = (log(spot[i] / strike[i]) + 0.065 * years[i]) / deviation, d2 = d1 - deviation;
    call[i] = spot[i] * erfc(-d1 * sqrt(0.5)) / 2 - due * erfc(-d2 * sqrt(0.5)) / 2;
    put[i] = call[i] - spot[i] + due;
  }
}
