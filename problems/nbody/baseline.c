/* The baseline: eight bodies at a time, each in a lane of its own. It is correct for every size; it must never change,
   or old numbers lose their meaning. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

typedef double vec __attribute__((vector_size(32)));

static inline vec root(vec v)
{
#ifdef __AVX__
    return (vec)_mm256_sqrt_pd((__m256d)v);
#else
    for (int l = 0; l < 4; l++)
        v[l] = sqrt(v[l]);
    return v;
#endif
}

void nbody(int n, const double *x, const double *y, const double *z, const double *mass, double *ax, double *ay,
           double *az)
{
    for (int i = 0; i < n; i += 8) {
        /* Bodies that are not there are computed as the last one and not stored. */
        double here[3][8];
        for (int l = 0; l < 8; l++) {
            int at = i + l < n ? i + l : n - 1;
            here[0][l] = x[at];
            here[1][l] = y[at];
            here[2][l] = z[at];
        }
        vec px[2], py[2], pz[2], sx[2] = {{0}}, sy[2] = {{0}}, sz[2] = {{0}};
        memcpy(px, here[0], sizeof px);
        memcpy(py, here[1], sizeof py);
        memcpy(pz, here[2], sizeof pz);
        for (int j = 0; j < n; j++)
            for (int v = 0; v < 2; v++) {
                vec dx = x[j] - px[v], dy = y[j] - py[v], dz = z[j] - pz[v];
                vec square = dx * dx + dy * dy + dz * dz + 0.01;
                vec pull = mass[j] / (square * root(square));
                sx[v] += pull * dx;
                sy[v] += pull * dy;
                sz[v] += pull * dz;
            }
        for (int l = 0; l < 8 && i + l < n; l++) {
            ax[i + l] = sx[l / 4][l % 4];
            ay[i + l] = sy[l / 4][l % 4];
            az[i + l] = sz[l / 4][l % 4];
        }
    }
}
