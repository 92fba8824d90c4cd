/* The baseline: tiles of 4x16 over a packed panel of B. It is correct for every size; it must never change, or old
   numbers lose their meaning. */
#include <string.h>

typedef float vec __attribute__((vector_size(32), aligned(4)));

enum { DEPTH = 256 };

void sgemm(int n, const float *A, const float *B, float *C)
{
    float panel[DEPTH * 16] __attribute__((aligned(64)));
    for (int l = 0; l < n; l += DEPTH) {
        int depth = n - l < DEPTH ? n - l : DEPTH;
        for (int j = 0; j < n; j += 16) {
            int wide = n - j < 16 ? n - j : 16;
            if (wide < 16)
                memset(panel, 0, sizeof panel);
            for (int k = 0; k < depth; k++)
                if (wide == 16)
                    memcpy(&panel[k * 16], &B[(l + k) * n + j], 16 * sizeof(float));
                else
                    memcpy(&panel[k * 16], &B[(l + k) * n + j], wide * sizeof(float));
            for (int i = 0; i < n; i += 4) {
                /* Rows that are not there are computed from others and not stored. */
                int high = n - i < 4 ? n - i : 4;
                const float *a0 = &A[i * n + l];
                const float *a1 = high > 1 ? a0 + n : a0;
                const float *a2 = high > 2 ? a1 + n : a1;
                const float *a3 = high > 3 ? a2 + n : a2;
                vec c00 = {0}, c01 = {0}, c10 = {0}, c11 = {0}, c20 = {0}, c21 = {0}, c30 = {0}, c31 = {0};
                for (int k = 0; k < depth; k++) {
                    vec b0 = *(const vec *)&panel[k * 16], b1 = *(const vec *)&panel[k * 16 + 8];
                    c00 += a0[k] * b0;
                    c01 += a0[k] * b1;
                    c10 += a1[k] * b0;
                    c11 += a1[k] * b1;
                    c20 += a2[k] * b0;
                    c21 += a2[k] * b1;
                    c30 += a3[k] * b0;
                    c31 += a3[k] * b1;
                }
                vec tile[4][2] = {{c00, c01}, {c10, c11}, {c20, c21}, {c30, c31}};
                for (int r = 0; r < high; r++) {
                    float *c = &C[(i + r) * n + j];
                    if (wide == 16) {
                        vec *left = (vec *)c, *right = (vec *)(c + 8);
                        *left = l ? *left + tile[r][0] : tile[r][0];
                        *right = l ? *right + tile[r][1] : tile[r][1];
                    } else {
                        for (int s = 0; s < wide; s++)
                            c[s] = l ? c[s] + tile[r][s / 8][s % 8] : tile[r][s / 8][s % 8];
                    }
                }
            }
        }
    }
}
