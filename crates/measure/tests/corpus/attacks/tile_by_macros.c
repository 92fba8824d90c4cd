// attack: 29
// how: keeps a tile of sums in variables whose names macros make; hopes that macros are not followed
// refused as: forbidden_technique
// permitted: loop_reorder, unroll, simd
#define JOIN(a, b, c) a##b##c
#define SUM(r, s) JOIN(sum, r, s)
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i += 2)
    for (int j = 0; j < n; j += 2) {
      double SUM(0, 0) = 0, SUM(0, 1) = 0, SUM(1, 0) = 0, SUM(1, 1) = 0;
      for (int k = 0; k < n; k++) {
        double a0 = A[i * n + k], a1 = A[(i + 1) * n + k];
        double b0 = B[k * n + j], b1 = B[k * n + j + 1];
        SUM(0, 0) += a0 * b0;
        SUM(0, 1) += a0 * b1;
        SUM(1, 0) += a1 * b0;
        SUM(1, 1) += a1 * b1;
      }
      C[i * n + j] = SUM(0, 0);
      C[i * n + j + 1] = SUM(0, 1);
      C[(i + 1) * n + j] = SUM(1, 0);
      C[(i + 1) * n + j + 1] = SUM(1, 1);
    }
}
