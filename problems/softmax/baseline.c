/* The baseline: eight columns at a time, with an exponential of its own. It is correct for every size; it must never
   change, or old numbers lose their meaning. */
typedef float vec __attribute__((vector_size(32), aligned(4)));
typedef unsigned bits __attribute__((vector_size(32), aligned(4)));

static inline vec choose(bits mask, vec yes, vec no)
{
    return (vec)((mask & (bits)yes) | (~mask & (bits)no));
}

/* exp of numbers that are not positive: 2^k·exp(r) with |r| <= ln(2)/2, exp(r) by its series. Below -87, where floats
   end, it is that of -87. */
static inline vec exponential(vec t)
{
    const vec zero = {0}, lowest = zero - 87.0f;
    t = choose((bits)(t < lowest), lowest, t);
    /* Adding 1.5·2^23 leaves the nearest whole number in the last bits. */
    vec shifted = t * 1.44269504f + 12582912.0f;
    vec k = shifted - 12582912.0f;
    /* ln(2) in two parts, the first of them so short that its products with k are exact. */
    vec r = t - k * 0.693359375f - k * -2.12194440e-4f;
    vec p = r * (1 / 5040.0f) + 1 / 720.0f;
    p = p * r + 1 / 120.0f;
    p = p * r + 1 / 24.0f;
    p = p * r + 1 / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * (vec)(((bits)shifted + 127) << 23);
}

/* The last columns of a row, filled up with `filler`. */
static inline vec last(const float *x, int count, float filler)
{
    float v[8] = {filler, filler, filler, filler, filler, filler, filler, filler};
    for (int l = 0; l < count; l++)
        v[l] = x[l];
    return *(const vec *)v;
}

void softmax(int m, int n, const float *in, float *out)
{
    int whole = n - n % 8, left = n % 8;
    for (int i = 0; i < m; i++) {
        const float *x = &in[i * n];
        float *y = &out[i * n];
        vec tops = {x[0], x[0], x[0], x[0], x[0], x[0], x[0], x[0]};
        for (int j = 0; j < whole; j += 8) {
            vec v = *(const vec *)&x[j];
            tops = choose((bits)(v > tops), v, tops);
        }
        vec rest = last(&x[whole], left, x[0]);
        tops = choose((bits)(rest > tops), rest, tops);
        float most = tops[0];
        for (int l = 1; l < 8; l++)
            most = tops[l] > most ? tops[l] : most;

        vec sums = {0};
        for (int j = 0; j < whole; j += 8) {
            vec e = exponential(*(const vec *)&x[j] - most);
            *(vec *)&y[j] = e;
            sums += e;
        }
        float sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
        rest = exponential(rest - most);
        for (int l = 0; l < left; l++) {
            y[whole + l] = rest[l];
            sum += rest[l];
        }
        float factor = 1 / sum;
        for (int j = 0; j < n; j++)
            y[j] *= factor;
    }
}
