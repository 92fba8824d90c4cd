/* The baseline: four options at a time, with an exponential, a logarithm and a normal distribution of its own. It is
   correct for every size; it must never change, or old numbers lose their meaning. */
#include <immintrin.h>
#include <math.h>

typedef double vec __attribute__((vector_size(32), aligned(8)));
typedef unsigned long long bits __attribute__((vector_size(32), aligned(8)));

static inline vec root(vec v)
{
#ifdef __AVX__
    return (vec)_mm256_sqrt_pd((__m256d)v);
#else
    for (int l = 0; l < 4; l++)
        v[l] = sqrt(v[l]);
    return v;
#endif
}

static inline vec choose(bits mask, vec yes, vec no)
{
    return (vec)((mask & (bits)yes) | (~mask & (bits)no));
}

/* exp of numbers that are not positive: 2^k·exp(r) with |r| <= ln(2)/2, exp(r) by its series. Below -700 it is that of
   -700. */
static inline vec exponential(vec t)
{
    const vec zero = {0}, lowest = zero - 700.0;
    t = choose((bits)(t < lowest), lowest, t);
    /* Adding 1.5·2^52 leaves the nearest whole number in the last bits. */
    vec shifted = t * 1.4426950408889634 + 6755399441055744.0;
    vec k = shifted - 6755399441055744.0;
    /* ln(2) in two parts, the first of them so short that its products with k are exact. */
    vec r = t - k * 0x1.62e42fefap-1 - k * 0x1.cf79abc9e3b3ap-40;
    vec p = r * (1 / 6227020800.0) + 1 / 479001600.0;
    p = p * r + 1 / 39916800.0;
    p = p * r + 1 / 3628800.0;
    p = p * r + 1 / 362880.0;
    p = p * r + 1 / 40320.0;
    p = p * r + 1 / 5040.0;
    p = p * r + 1 / 720.0;
    p = p * r + 1 / 120.0;
    p = p * r + 1 / 24.0;
    p = p * r + 1 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return p * (vec)(((bits)shifted + 1023) << 52);
}

/* The logarithm of 2^k·m with m between the roots of 1/2 and 2: ln(m) = 2·artanh((m - 1)/(m + 1)), by its series. */
static inline vec logarithm(vec x)
{
    /* The exponent with its bias of 1023, raised by one where the fraction is above the root of 2. */
    bits exponent = ((bits)x + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd)) >> 52;
    vec m = (vec)((bits)x - ((exponent - 1023) << 52));
    vec k = (vec)(exponent | 0x4330000000000000) - (4503599627370496.0 + 1023.0);
    vec s = (m - 1) / (m + 1), z = s * s;
    vec p = z * (2 / 21.0) + 2 / 19.0;
    p = p * z + 2 / 17.0;
    p = p * z + 2 / 15.0;
    p = p * z + 2 / 13.0;
    p = p * z + 2 / 11.0;
    p = p * z + 2 / 9.0;
    p = p * z + 2 / 7.0;
    p = p * z + 2 / 5.0;
    p = p * z + 2 / 3.0;
    return k * 0.6931471805599453 + (s * 2.0 + s * z * p);
}

/* The normal distribution of -|d| is exp(-d²/2) times a smooth function; this polynomial in (|d| - 4)/(|d| + 4), fitted
   for it at the zeros of a Chebyshev polynomial, misses that function by less than 1e-16. */
static inline vec normal(vec d)
{
    static const double fit[24] = {
        0.09441064130196893,     -0.17039772154845542,   0.12437925533926537,     -0.07170740733773803,
        0.03086480410622515,     -0.008492095482084967,  0.000507562076799988,    0.0006388138514064342,
        -0.00018718428669896724, -4.5554892640417344e-05, 2.8648442798579606e-05, 4.631555015543092e-06,
        -4.303904346491218e-06,  -8.294129430235673e-07, 6.62297108753446e-07,    2.0602260013457762e-07,
        -9.534702277947434e-08,  -5.2845602685133334e-08, 1.0479978903484804e-08, 1.192568322987461e-08,
        -4.583989356967971e-10,  -2.0206904361824695e-09, -4.767851228809609e-11, 1.8544963358123816e-10,
    };
    const vec zero = {0};
    bits above = (bits)(d > zero);
    vec size = choose(above, d, -d);
    vec t = (size - 4) / (size + 4), p = zero + fit[23];
    for (int i = 22; i >= 0; i--)
        p = p * t + fit[i];
    vec tail = p * exponential(size * size * -0.5);
    return choose(above, 1 - tail, tail);
}

void black_scholes(int n, const double *spot, const double *strike, const double *years, double *call, double *put)
{
    const double rate = 0.02, volatility = 0.3;
    for (int i = 0; i < n; i += 4) {
        vec s, k, t;
        int high = n - i < 4 ? n - i : 4;
        if (high == 4) {
            s = *(const vec *)&spot[i];
            k = *(const vec *)&strike[i];
            t = *(const vec *)&years[i];
        } else {
            /* Options that are not there are copies of the last one and not stored. */
            for (int l = 0; l < 4; l++) {
                int at = l < high ? i + l : n - 1;
                s[l] = spot[at];
                k[l] = strike[at];
                t[l] = years[at];
            }
        }
        vec deviation = volatility * root(t);
        vec d1 = (logarithm(s / k) + (rate + volatility * volatility / 2) * t) / deviation;
        vec due = k * exponential(-rate * t);
        vec c = s * normal(d1) - due * normal(d1 - deviation);
        vec p = c - s + due;
        if (high == 4) {
            *(vec *)&call[i] = c;
            *(vec *)&put[i] = p;
        } else {
            for (int l = 0; l < high; l++) {
                call[i + l] = c[l];
                put[i + l] = p[l];
            }
        }
    }
}
