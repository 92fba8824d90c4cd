/* The baseline: the data less their means as columns padded to whole vectors, and tiles of 4x8 of one triangle. It is
   correct for every size; it must never change, or old numbers lose their meaning. */
#include <stdlib.h>

typedef double vec __attribute__((vector_size(32), aligned(8)));

void polybench_covariance(int m, int n, const double *data, double *mean, double *cov)
{
    int wide = (m + 7) / 8 * 8;
    double *x = calloc((size_t)n * wide, sizeof *x);
    if (!x)
        abort();
    for (int j = 0; j < m; j++)
        mean[j] = 0;
    for (int k = 0; k < n; k++)
        for (int j = 0; j < m; j++)
            mean[j] += data[k * m + j];
    for (int j = 0; j < m; j++)
        mean[j] /= n;
    for (int k = 0; k < n; k++)
        for (int j = 0; j < m; j++)
            x[k * wide + j] = data[k * m + j] - mean[j];
    for (int i = 0; i < m; i += 4)
        for (int j = i / 8 * 8; j < m; j += 8) {
            vec sum[4][2] = {{{0}}};
            for (int k = 0; k < n; k++) {
                const double *row = &x[k * wide];
                vec y0 = *(const vec *)&row[j], y1 = *(const vec *)&row[j + 4];
                for (int r = 0; r < 4; r++) {
                    sum[r][0] += row[i + r] * y0;
                    sum[r][1] += row[i + r] * y1;
                }
            }
            for (int r = 0; r < 4 && i + r < m; r++)
                for (int s = 0; s < 8 && j + s < m; s++)
                    if (j + s >= i + r)
                        cov[(i + r) * m + j + s] = cov[(j + s) * m + i + r] = sum[r][s / 4][s % 4] / (n - 1);
        }
    free(x);
}
