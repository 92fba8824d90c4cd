// honest: the put follows from the call by what both are worth together, and options are structures that are passed by value
// problem: black_scholes
#include <math.h>
struct option {
  double spot, strike, years;
};
struct prices {
  double call, put;
};
static double below(double d) { return 0.5 * erfc(-0.70710678118654752440 * d); }
static struct prices of(struct option o) {
  double deviation = 0.3 * sqrt(o.years), due = o.strike * exp(-0.02 * o.years);
  double d1 = (log(o.spot / o.strike) + (0.02 + 0.045) * o.years) / deviation;
  double call = o.spot * below(d1) - due * below(d1 - deviation);
  return (struct prices){call, call - o.spot + due};
}
void black_scholes(int n, const double *spot, const double *strike, const double *years, double *call, double *put) {
  while (n-- > 0) {
    struct prices found = of((struct option){spot[n], strike[n], years[n]});
    call[n] = found.call, put[n] = found.put;
  }
}
