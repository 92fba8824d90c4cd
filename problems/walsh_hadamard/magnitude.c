#include <math.h>

/* Every element of y sums all elements of x with one sign or the other, which makes it about as large as the root of the
   sum of their squares. Each layer rounds, and the roundings of one layer reach an element with either sign: together they
   are about one rounding of that root. */
void walsh_hadamard_magnitude(int n, const double *x, double *y)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < n; i++)
        y[i] = sqrt(sum);
}
