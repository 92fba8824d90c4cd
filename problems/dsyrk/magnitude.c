#include <math.h>

/* What is summed for an element of C, without signs: a sum of k products in any order is off by some of sqrt(k)
   roundings of this. */
void dsyrk_magnitude(int n, int k, const double *A, double *C)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += fabs(A[i * k + l] * A[j * k + l]);
            C[i * n + j] = sum;
        }
}
