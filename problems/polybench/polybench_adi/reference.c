#include <stdlib.h>

/* In each step, all columns are solved for v and then all rows for u: tridiagonal systems, by elimination. */
void polybench_adi(int tsteps, int n, double *u)
{
    double *v = malloc(sizeof *v * n * n), *p = malloc(sizeof *p * n), *q = malloc(sizeof *q * n);
    if (!v || !p || !q)
        abort();
    double rows = (double)n * n / tsteps, columns = 2 * rows;
    double a = -columns / 2, b = 1 + columns, c = a;
    double d = -rows / 2, e = 1 + rows, f = d;
    for (int t = 0; t < tsteps; t++) {
        for (int i = 1; i < n - 1; i++) {
            v[i] = 1;
            p[0] = 0;
            q[0] = v[i];
            for (int j = 1; j < n - 1; j++) {
                p[j] = -c / (a * p[j - 1] + b);
                q[j] = (-d * u[j * n + i - 1] + (1 + 2 * d) * u[j * n + i] - f * u[j * n + i + 1] - a * q[j - 1])
                       / (a * p[j - 1] + b);
            }
            v[(n - 1) * n + i] = 1;
            for (int j = n - 2; j >= 1; j--)
                v[j * n + i] = p[j] * v[(j + 1) * n + i] + q[j];
        }
        for (int i = 1; i < n - 1; i++) {
            u[i * n] = 1;
            p[0] = 0;
            q[0] = u[i * n];
            for (int j = 1; j < n - 1; j++) {
                p[j] = -f / (d * p[j - 1] + e);
                q[j] = (-a * v[(i - 1) * n + j] + (1 + 2 * a) * v[i * n + j] - c * v[(i + 1) * n + j] - d * q[j - 1])
                       / (d * p[j - 1] + e);
            }
            u[i * n + n - 1] = 1;
            for (int j = n - 2; j >= 1; j--)
                u[i * n + j] = p[j] * u[i * n + j + 1] + q[j];
        }
    }
    free(v);
    free(p);
    free(q);
}
