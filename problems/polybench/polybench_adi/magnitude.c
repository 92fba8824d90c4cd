#include <math.h>
#include <stdlib.h>

static double largest(int n, const double *x)
{
    double most = 0;
    for (int i = 0; i < n * n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

/* One step is (1 + rows·X)·u' = (1 - columns·Y)·v with (1 + columns·Y)·v = (1 - rows·X)·u, X and Y differences along
   rows and columns with eigenvalues between 0 and 2. An error of (1 + rows·X)·u is therefore multiplied by (1 -
   s)/(1 + s) for each direction, s >= 0, and does not grow. The step adds some roundings of rows·|u| + columns·|v|,
   of either sign, so that squares are added. In the end, 1/(1 + rows·X) makes of them, averaged over all
   eigenvalues, the part sqrt((1 + rows)/(1 + 2·rows)^1.5). The border is exact. */
void polybench_adi_magnitude(int tsteps, int n, double *u)
{
    double *v = calloc((size_t)n * n, sizeof *v), *p = malloc(sizeof *p * n), *q = malloc(sizeof *q * n);
    if (!v || !p || !q)
        abort();
    double rows = (double)n * n / tsteps, columns = 2 * rows, squares = 0;
    double a = -columns / 2, b = 1 + columns, d = -rows / 2, e = 1 + rows;
    for (int t = 0; t < tsteps; t++) {
        double size = rows * largest(n, u);
        for (int i = 1; i < n - 1; i++) {
            p[0] = 0;
            q[0] = 1;
            for (int j = 1; j < n - 1; j++) {
                double pivot = a * p[j - 1] + b;
                p[j] = -a / pivot;
                const double *x = &u[j * n + i];
                q[j] = ((1 + 2 * d) * x[0] - d * (x[-1] + x[1]) - a * q[j - 1]) / pivot;
            }
            v[i] = v[(n - 1) * n + i] = 1;
            for (int j = n - 2; j >= 1; j--)
                v[j * n + i] = p[j] * v[(j + 1) * n + i] + q[j];
        }
        size += columns * largest(n, v);
        squares += size * size;
        for (int i = 1; i < n - 1; i++) {
            p[0] = 0;
            q[0] = 1;
            for (int j = 1; j < n - 1; j++) {
                double pivot = d * p[j - 1] + e;
                p[j] = -d / pivot;
                const double *x = &v[i * n + j];
                q[j] = ((1 + 2 * a) * x[0] - a * (x[-n] + x[n]) - d * q[j - 1]) / pivot;
            }
            u[i * n] = u[i * n + n - 1] = 1;
            for (int j = n - 2; j >= 1; j--)
                u[i * n + j] = p[j] * u[i * n + j + 1] + q[j];
        }
    }
    double off = sqrt(squares * (1 + rows) / pow(1 + 2 * rows, 1.5));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            u[i * n + j] = i == 0 || i == n - 1 || j == 0 || j == n - 1 ? 0 : off;
    free(v);
    free(p);
    free(q);
}
