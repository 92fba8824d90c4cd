#include <stdlib.h>

/* Levinson's and Durbin's recursion: the solution for k + 1 unknowns follows from the one for k unknowns and the
   same in reverse order. */
void polybench_durbin(int n, const double *r, double *y)
{
    double *z = malloc(sizeof *z * n);
    if (!z)
        abort();
    double alpha = -r[0], beta = 1;
    y[0] = -r[0];
    for (int k = 1; k < n; k++) {
        beta = (1 - alpha * alpha) * beta;
        double sum = 0;
        for (int i = 0; i < k; i++)
            sum += r[k - i - 1] * y[i];
        alpha = -(r[k] + sum) / beta;
        for (int i = 0; i < k; i++)
            z[i] = y[i] + alpha * y[k - i - 1];
        for (int i = 0; i < k; i++)
            y[i] = z[i];
        y[k] = alpha;
    }
    free(z);
}
