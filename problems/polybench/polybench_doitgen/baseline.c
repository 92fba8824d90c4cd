/* The baseline: four rows at a time, eight columns at a time. It is correct for every size; it must never change, or
   old numbers lose their meaning. */
#include <stdlib.h>

typedef double vec __attribute__((vector_size(32), aligned(8)));

void polybench_doitgen(int nr, int nq, int np, double *A, const double *C4)
{
    int rows = nr * nq, wide = np - np % 8;
    double *old = malloc(sizeof *old * 4 * np);
    if (!old)
        abort();
    for (int i = 0; i < rows; i += 4) {
        int high = rows - i < 4 ? rows - i : 4;
        for (int r = 0; r < 4; r++)
            for (int p = 0; p < np; p++)
                old[r * np + p] = r < high ? A[(i + r) * np + p] : 0;
        for (int p = 0; p < wide; p += 8) {
            vec sum[4][2] = {{{0}}};
            for (int s = 0; s < np; s++) {
                vec c0 = *(const vec *)&C4[s * np + p], c1 = *(const vec *)&C4[s * np + p + 4];
                for (int r = 0; r < 4; r++) {
                    sum[r][0] += old[r * np + s] * c0;
                    sum[r][1] += old[r * np + s] * c1;
                }
            }
            for (int r = 0; r < high; r++) {
                *(vec *)&A[(i + r) * np + p] = sum[r][0];
                *(vec *)&A[(i + r) * np + p + 4] = sum[r][1];
            }
        }
        for (int r = 0; r < high; r++)
            for (int p = wide; p < np; p++) {
                double sum = 0;
                for (int s = 0; s < np; s++)
                    sum += old[r * np + s] * C4[s * np + p];
                A[(i + r) * np + p] = sum;
            }
    }
    free(old);
}
