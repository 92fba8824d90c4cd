// attack: 13, 5
// how: stops when a place in the middle hardly moves; hopes that the rest does not either
// refused as: wrong_result
// problem: polybench_jacobi_2d
#include <math.h>
#include <string.h>
void polybench_jacobi_2d(int tsteps, int n, double *A, double *B) {
  memcpy(B, A, sizeof *B * n * n);
  for (int t = 0; t < 2 * tsteps; t++) {
    const double *from = t % 2 ? B : A;
    double *to = t % 2 ? A : B;
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < n - 1; j++) {
        const double *x = &from[i * n + j];
        to[i * n + j] = 0.2 * (x[0] + x[-1] + x[1] + x[n] + x[-n]);
      }
    if (fabs(A[n * n / 2] - B[n * n / 2]) < 1e-2 && t % 2) return;
  }
}
