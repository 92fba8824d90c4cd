// attack: 29
// how: takes its vector type from what an intrinsic gives; hopes that no type is named
// refused as: forbidden_technique
// permitted: loop_reorder, unroll
// problem: nbody
// needs: x86_64
#include <immintrin.h>
using numbers = decltype(_mm256_setzero_pd());
extern "C" void nbody(int n, const double *x, const double *y, const double *z, const double *mass, double *ax, double *ay, double *az) {
  (void)y, (void)z, (void)mass, (void)ay, (void)az;
  for (int i = 0; i + 4 <= n; i += 4) {
    numbers sum = {};
    for (int j = 0; j < n; j++) sum += x[j];
    for (int l = 0; l < 4; l++) ax[i + l] = sum[l];
  }
}
