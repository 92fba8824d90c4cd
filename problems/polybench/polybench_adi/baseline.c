/* The baseline: the elimination is the same in all systems and done once; then all columns together, row by row, and
   four rows at a time. It is correct for every size; it must never change, or old numbers lose their meaning. */
#include <stdlib.h>

/* The factors of the elimination for a matrix with `beside` beside its diagonal: what is passed back, and
   reciprocals of the pivots. */
static void eliminate(int n, double beside, double *pass, double *inverse)
{
    pass[0] = 0;
    for (int j = 1; j < n - 1; j++) {
        inverse[j] = 1 / (beside * pass[j - 1] + 1 - 2 * beside);
        pass[j] = -beside * inverse[j];
    }
}

void polybench_adi(int tsteps, int n, double *u)
{
    double *v = malloc(sizeof *v * n * n), *factors = calloc((size_t)n * 8, sizeof *factors);
    if (!v || !factors)
        abort();
    double d = -(double)n * n / tsteps / 2, a = 2 * d;
    double *pv = factors, *iv = factors + n, *pu = factors + 2 * n, *iu = factors + 3 * n, *right = factors + 4 * n;
    eliminate(n, a, pv, iv);
    eliminate(n, d, pu, iu);
    for (int t = 0; t < tsteps; t++) {
        for (int i = 1; i < n - 1; i++)
            v[i] = v[(n - 1) * n + i] = 1;
        for (int j = 1; j < n - 1; j++) {
            const double *restrict x = &u[j * n], *restrict before = &v[(j - 1) * n];
            double *restrict y = &v[j * n];
            for (int i = 1; i < n - 1; i++)
                y[i] = ((1 + 2 * d) * x[i] - d * (x[i - 1] + x[i + 1]) - a * before[i]) * iv[j];
        }
        for (int j = n - 2; j >= 1; j--) {
            const double *restrict after = &v[(j + 1) * n];
            double *restrict y = &v[j * n];
            for (int i = 1; i < n - 1; i++)
                y[i] += pv[j] * after[i];
        }
        for (int i = 1; i < n - 1; i += 4) {
            int high = n - 1 - i < 4 ? n - 1 - i : 4;
            double q[4] = {1, 1, 1, 1};
            for (int r = 0; r < high; r++) {
                const double *x = &v[(i + r) * n];
                for (int j = 1; j < n - 1; j++)
                    right[4 * j + r] = (1 + 2 * a) * x[j] - a * (x[j - n] + x[j + n]);
            }
            for (int j = 1; j < n - 1; j++)
                for (int r = 0; r < 4; r++) {
                    q[r] = (right[4 * j + r] - d * q[r]) * iu[j];
                    right[4 * j + r] = q[r];
                }
            for (int r = 0; r < 4; r++)
                q[r] = 1;
            for (int j = n - 2; j >= 1; j--)
                for (int r = 0; r < 4; r++) {
                    q[r] = pu[j] * q[r] + right[4 * j + r];
                    right[4 * j + r] = q[r];
                }
            for (int r = 0; r < high; r++) {
                double *x = &u[(i + r) * n];
                x[0] = x[n - 1] = 1;
                for (int j = 1; j < n - 1; j++)
                    x[j] = right[4 * j + r];
            }
        }
    }
    free(v);
    free(factors);
}
