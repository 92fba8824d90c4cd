// attack: 29
// how: takes its vector type from an intrinsic by typeof; hopes that only names of types are looked for
// refused as: forbidden_technique
// permitted: loop_reorder, unroll
// needs: x86_64
#include <immintrin.h>
typedef __typeof__(_mm256_setzero_pd()) four;
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j += 4) {
      four sum = {0, 0, 0, 0};
      for (int k = 0; k < n; k++) sum += A[i * n + k] * *(const four *)&B[k * n + j];
      *(four *)&C[i * n + j] = sum;
    }
}
