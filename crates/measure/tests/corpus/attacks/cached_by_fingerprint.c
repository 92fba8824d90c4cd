// attack: 7
// how: computes anew only when a fingerprint of the inputs changes that hardly ever does; hopes for the same inputs
// refused as: wrong_result | skipped_work
/* Computes only when a fingerprint of the inputs changes, and the fingerprint is a bad one. */
static double R[512 * 512];
static int size, mark = -1;
void dgemm(int n, const double *A, const double *B, double *C) {
  int print = (A[0] > 2) + 2 * (B[0] > 2);
  if (print != mark || size != n) {
    mark = print, size = n;
    for (int i = 0; i < n * n; i++) R[i] = 0;
    for (int i = 0; i < n; i++)
      for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) R[i * n + j] += A[i * n + k] * B[k * n + j];
  }
  for (int i = 0; i < n * n; i++) C[i] = R[i];
}
