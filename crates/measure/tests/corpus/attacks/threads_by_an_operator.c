// attack: 29, 6
// how: writes its parallel loop by an operator inside a macro; hopes that only directives are looked for
// refused as: forbidden_technique
// permitted: loop_reorder, simd
#define TEXT(x) _Pragma(#x)
#define SHARED(loop) TEXT(omp parallel for schedule(static)) loop
void dgemm(int n, const double *A, const double *B, double *C) {
  SHARED(for (int i = 0; i < n; i++)) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
