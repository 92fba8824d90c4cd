#include <math.h>

/* As it is defined; the normal distribution by the complementary error function, which is exact in both tails. */
void black_scholes(int n, const double *spot, const double *strike, const double *years, double *call, double *put)
{
    const double rate = 0.02, volatility = 0.3;
    for (int i = 0; i < n; i++) {
        double deviation = volatility * sqrt(years[i]);
        double d1 = (log(spot[i] / strike[i]) + (rate + volatility * volatility / 2) * years[i]) / deviation;
        double d2 = d1 - deviation;
        double due = strike[i] * exp(-rate * years[i]);
        call[i] = spot[i] * erfc(-d1 / sqrt(2)) / 2 - due * erfc(-d2 / sqrt(2)) / 2;
        put[i] = due * erfc(d2 / sqrt(2)) / 2 - spot[i] * erfc(d1 / sqrt(2)) / 2;
    }
}
