// attack: 29
// how: calls its blocked loops through a table; hopes that a check that follows calls does not follow pointers
// refused as: forbidden_technique
// permitted: unroll, simd
// problem: dsyrk
static void blocked(int n, int k, const double *A, double *C) {
  for (int ii = 0; ii < n; ii += 32)
    for (int jj = 0; jj < n; jj += 32)
      for (int i = ii; i < ii + 32 && i < n; i++)
        for (int j = jj; j < jj + 32 && j < n; j++) {
          double sum = 0;
          for (int l = 0; l < k; l++) sum += A[i * k + l] * A[j * k + l];
          C[i * n + j] = sum;
        }
}
static void (*const kernels[])(int, int, const double *, double *) = {blocked};
void dsyrk(int n, int k, const double *A, double *C) { kernels[0](n, k, A, C); }
