/* The normal distribution in single precision. */
#include <math.h>

void black_scholes(int n, const double *spot, const double *strike, const double *years, double *call, double *put)
{
    for (int i = 0; i < n; i++) {
        double deviation = 0.3 * sqrt(years[i]);
        double d1 = (log(spot[i] / strike[i]) + 0.065 * years[i]) / deviation, d2 = d1 - deviation;
        double due = strike[i] * exp(-0.02 * years[i]);
        call[i] = (spot[i] * erfcf(-d1 * sqrt(0.5)) - due * erfcf(-d2 * sqrt(0.5))) / 2;
        put[i] = (due * erfcf(d2 * sqrt(0.5)) - spot[i] * erfcf(d1 * sqrt(0.5))) / 2;
    }
}
