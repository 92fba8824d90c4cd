/* The baseline: a copy of the solution in reverse order makes all accesses go upwards; four partial sums. It is correct
   for every size; it must never change, or old numbers lose their meaning. */
#include <stdlib.h>

typedef double vec __attribute__((vector_size(32), aligned(8)));

void polybench_durbin(int n, const double *r, double *y)
{
    double *back = malloc(sizeof *back * n);
    if (!back)
        abort();
    double alpha = -r[0], beta = 1;
    y[0] = -r[0];
    for (int k = 1; k < n; k++) {
        beta = (1 - alpha * alpha) * beta;
        for (int i = 0; i < k; i++)
            back[i] = y[k - i - 1];
        vec s = {0};
        int i = 0;
        for (; i + 4 <= k; i += 4)
            s += *(const vec *)&r[i] * *(const vec *)&back[i];
        double sum = (s[0] + s[1]) + (s[2] + s[3]);
        for (; i < k; i++)
            sum += r[i] * back[i];
        alpha = -(r[k] + sum) / beta;
        for (i = 0; i + 4 <= k; i += 4)
            *(vec *)&y[i] += alpha * *(const vec *)&back[i];
        for (; i < k; i++)
            y[i] += alpha * back[i];
        y[k] = alpha;
    }
    free(back);
}
