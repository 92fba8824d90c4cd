/* The baseline: tiles of 4x8 of the lower triangle over eight rows of A that are packed side by side. It is correct for
   every size; it must never change, or old numbers lose their meaning. */
typedef double vec __attribute__((vector_size(32), aligned(8)));

enum { DEPTH = 256 };

void dsyrk(int n, int k, const double *A, double *C)
{
    double panel[DEPTH * 8] __attribute__((aligned(64)));
    for (int l = 0; l < k; l += DEPTH) {
        int depth = k - l < DEPTH ? k - l : DEPTH;
        for (int j = 0; j < n; j += 8) {
            int wide = n - j < 8 ? n - j : 8;
            for (int s = 0; s < 8; s++)
                for (int p = 0; p < depth; p++)
                    panel[p * 8 + s] = s < wide ? A[(j + s) * k + l + p] : 0;
            for (int i = j; i < n; i += 4) {
                /* Rows that are not there are computed from others and not stored. */
                int high = n - i < 4 ? n - i : 4;
                const double *a0 = &A[i * k + l];
                const double *a1 = high > 1 ? a0 + k : a0;
                const double *a2 = high > 2 ? a1 + k : a1;
                const double *a3 = high > 3 ? a2 + k : a2;
                vec c00 = {0}, c01 = {0}, c10 = {0}, c11 = {0}, c20 = {0}, c21 = {0}, c30 = {0}, c31 = {0};
                for (int p = 0; p < depth; p++) {
                    vec b0 = *(const vec *)&panel[p * 8], b1 = *(const vec *)&panel[p * 8 + 4];
                    c00 += a0[p] * b0;
                    c01 += a0[p] * b1;
                    c10 += a1[p] * b0;
                    c11 += a1[p] * b1;
                    c20 += a2[p] * b0;
                    c21 += a2[p] * b1;
                    c30 += a3[p] * b0;
                    c31 += a3[p] * b1;
                }
                vec tile[4][2] = {{c00, c01}, {c10, c11}, {c20, c21}, {c30, c31}};
                for (int r = 0; r < high; r++)
                    for (int s = 0; s < wide; s++) {
                        double *c = &C[(i + r) * n + j + s];
                        *c = l ? *c + tile[r][s / 4][s % 4] : tile[r][s / 4][s % 4];
                    }
            }
        }
    }
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            C[i * n + j] = C[j * n + i];
}
