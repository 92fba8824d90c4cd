#include <math.h>

/* Two things make an error. N, the products and the sums are off by some roundings of S and of K·exp(-rT), whether the
   put is computed by itself or from the call. And d1 and d2 are off: by one rounding of S/K, which is one of ln(S/K)
   as an absolute number, by two of ln(S/K) and of (r + v²/2)·T each, all over v·sqrt(T), and by three of themselves and
   of v·sqrt(T). That counts as much as N changes there, times S or K·exp(-rT). */
void black_scholes_magnitude(int n, const double *spot, const double *strike, const double *years, double *call,
                             double *put)
{
    const double rate = 0.02, volatility = 0.3;
    for (int i = 0; i < n; i++) {
        double deviation = volatility * sqrt(years[i]), distance = fabs(log(spot[i] / strike[i]));
        double drift = (rate + volatility * volatility / 2) * years[i];
        double d1 = (log(spot[i] / strike[i]) + drift) / deviation, d2 = d1 - deviation;
        double due = strike[i] * exp(-rate * years[i]);
        double shift = (1 + distance + drift) / deviation + deviation;
        double slope1 = exp(-d1 * d1 / 2) / sqrt(2 * acos(-1)), slope2 = exp(-d2 * d2 / 2) / sqrt(2 * acos(-1));
        double size = spot[i] * (1 + slope1 * (shift + fabs(d1))) + due * (1 + slope2 * (shift + fabs(d2)));
        call[i] = size;
        put[i] = size;
    }
}
