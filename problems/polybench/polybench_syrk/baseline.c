/* The baseline: eight rows of A at a time are packed side by side, and tiles of 4x8 of the lower triangle are computed
   from them. It is correct for every size; it must never change, or old numbers lose their meaning. */
#include <stdlib.h>

typedef double vec __attribute__((vector_size(32), aligned(8)));

void polybench_syrk(int n, int m, double alpha, double beta, double *C, const double *A)
{
    double *panel = malloc(sizeof *panel * 8 * m);
    if (!panel)
        abort();
    for (int j = 0; j < n; j += 8) {
        int wide = n - j < 8 ? n - j : 8;
        for (int k = 0; k < m; k++)
            for (int s = 0; s < 8; s++)
                panel[k * 8 + s] = s < wide ? A[(j + s) * m + k] : 0;
        for (int i = j; i < n; i += 4) {
            /* Rows that are not there are computed from others and not stored. */
            int high = n - i < 4 ? n - i : 4;
            vec sum[4][2] = {{{0}}};
            for (int k = 0; k < m; k++) {
                const vec *p = (const vec *)&panel[k * 8];
                for (int r = 0; r < 4; r++) {
                    double a = A[(i + (r < high ? r : 0)) * m + k];
                    sum[r][0] += a * p[0];
                    sum[r][1] += a * p[1];
                }
            }
            for (int r = 0; r < high; r++)
                for (int s = 0; s < wide && j + s <= i + r; s++) {
                    double *c = &C[(i + r) * n + j + s];
                    *c = beta * *c + alpha * sum[r][s / 4][s % 4];
                }
        }
    }
    free(panel);
}
