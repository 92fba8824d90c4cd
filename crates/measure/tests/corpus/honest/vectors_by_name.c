// honest: vector types by the compiler's own names and conversions
// needs: x86_64
#include <immintrin.h>
typedef long long integers __attribute__((vector_size(16)));
void dgemm(int n, const double *A, const double *B, double *C) {
  const __v2df zero = __builtin_convertvector((integers){0, 0}, __v2df);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j += 4) {
      __v2df c[2] = {zero, zero};
      for (int k = 0; k < n; k++) {
        const __v2df a = {A[i * n + k], A[i * n + k]}, *b = (const __v2df *)&B[k * n + j];
        c[0] += a * b[0], c[1] += a * b[1];
      }
      ((__v2df *)&C[i * n + j])[0] = c[0], ((__v2df *)&C[i * n + j])[1] = c[1];
    }
}
