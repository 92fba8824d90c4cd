// attack: 29
// how: unrolls by an operator inside a macro; hopes that only directives are looked for
// refused as: forbidden_technique
// permitted: loop_reorder, simd
#define EIGHTFOLD _Pragma("GCC unroll 8")
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      EIGHTFOLD
      for (int k = 0; k < n; k++) sum += A[i * n + k] * B[k * n + j];
      C[i * n + j] = sum;
    }
}
