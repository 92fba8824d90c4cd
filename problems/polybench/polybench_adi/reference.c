#include <stdlib.h>

/* In each step, all columns are solved for v and then all rows for u: tridiagonal systems, by elimination. Each
   system has a column or a row of the factors p and q for itself. */
void polybench_adi(int tsteps, int n, double *u)
{
    double *v = malloc(sizeof *v * n * n), *p = malloc(sizeof *p * n * n), *q = malloc(sizeof *q * n * n);
    if (!v || !p || !q)
        abort();
    double rows = (double)n * n / tsteps, columns = 2 * rows;
    double a = -columns / 2, b = 1 + columns, c = a;
    double d = -rows / 2, e = 1 + rows, f = d;
    for (int t = 0; t < tsteps; t++) {
        for (int i = 1; i < n - 1; i++) {
            v[i] = 1;
            p[i] = 0;
            q[i] = v[i];
            for (int j = 1; j < n - 1; j++) {
                p[j * n + i] = -c / (a * p[(j - 1) * n + i] + b);
                q[j * n + i] = (-d * u[j * n + i - 1] + (1 + 2 * d) * u[j * n + i] - f * u[j * n + i + 1]
                                - a * q[(j - 1) * n + i])
                               / (a * p[(j - 1) * n + i] + b);
            }
            v[(n - 1) * n + i] = 1;
            for (int j = n - 2; j >= 1; j--)
                v[j * n + i] = p[j * n + i] * v[(j + 1) * n + i] + q[j * n + i];
        }
        for (int i = 1; i < n - 1; i++) {
            u[i * n] = 1;
            p[i * n] = 0;
            q[i * n] = u[i * n];
            for (int j = 1; j < n - 1; j++) {
                p[i * n + j] = -f / (d * p[i * n + j - 1] + e);
                q[i * n + j] = (-a * v[(i - 1) * n + j] + (1 + 2 * a) * v[i * n + j] - c * v[(i + 1) * n + j]
                                - d * q[i * n + j - 1])
                               / (d * p[i * n + j - 1] + e);
            }
            u[i * n + n - 1] = 1;
            for (int j = n - 2; j >= 1; j--)
                u[i * n + j] = p[i * n + j] * u[i * n + j + 1] + q[i * n + j];
        }
    }
    free(v);
    free(p);
    free(q);
}
