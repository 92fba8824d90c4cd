// honest: divides once for each column and multiplies by the reciprocal; takes each column out of the rest at once
// problem: polybench_cholesky
#include <math.h>
void polybench_cholesky(int n, double *A) {
  for (int k = 0; k < n; k++) {
    const double root = sqrt(A[k * n + k]), inverse = 1 / root;
    A[k * n + k] = root;
    for (int i = k + 1; i < n; i++) A[i * n + k] *= inverse;
    for (int i = k + 1; i < n; i++)
      for (int j = k + 1; j <= i; j++) A[i * n + j] -= A[i * n + k] * A[j * n + k];
  }
}
