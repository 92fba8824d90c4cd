#include <math.h>

/* Roundings of an element, in halves of eps, times the element y = exp(t)/sum with t = x - most: t is off by one rounding
   of itself, and by another where exp(t) is made of a power of two, which makes 2|t| of them in exp(t) and twice the
   mean of all |t|, weighted by y, in the sum; a good exp adds four at most, here and there; n - 1 terms are summed, with
   errors of either sign, and only those that are not much smaller than the largest add any, which is less than sqrt(n)
   even in one running sum; the quotient adds two. Working online, the
   running sum is scaled as the maximum rises, by factors whose arguments add up to no more than the way to the final
   maximum. The best polynomial of the fourth degree for exp misses it by 22 eps, its series of five terms by 350.

   A result below the smallest normal number may as well be zero, so that the
   last summand stands for it: eps times it is ten times that number. */
void softmax_magnitude(int m, int n, const float *in, float *out)
{
    for (int i = 0; i < m; i++) {
        const float *x = &in[i * n];
        double most = x[0], sum = 0, distance = 0;
        for (int j = 1; j < n; j++)
            if (x[j] > most)
                most = x[j];
        for (int j = 0; j < n; j++) {
            sum += exp(x[j] - most);
            distance += exp(x[j] - most) * (most - x[j]);
        }
        for (int j = 0; j < n; j++)
            out[i * n + j] = exp(x[j] - most) / sum * (8 + sqrt(n) / 4 + (most - x[j]) + distance / sum) + 1e-30;
    }
}
