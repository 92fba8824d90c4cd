/* The baseline: the same method with all loops along the rows, so that the columns of a row are worked on together.
   It is correct for every size; it must never change, or old numbers lose their meaning. */
#include <math.h>
#include <string.h>

void polybench_gramschmidt(int n, int extra, const double *A, double *R, double *Q)
{
    int m = n + extra;
    memcpy(Q, A, sizeof *Q * m * n);
    memset(R, 0, sizeof *R * n * n);
    for (int k = 0; k < n; k++) {
        double *restrict r = &R[k * n];
        for (int i = 0; i < m; i++) {
            const double *restrict q = &Q[i * n];
            double first = q[k];
            for (int j = k; j < n; j++)
                r[j] += first * q[j];
        }
        double root = sqrt(r[k]);
        for (int j = k; j < n; j++)
            r[j] /= root;
        for (int i = 0; i < m; i++) {
            double *restrict q = &Q[i * n];
            double first = q[k] / root;
            q[k] = first;
            for (int j = k + 1; j < n; j++)
                q[j] -= first * r[j];
        }
    }
}
