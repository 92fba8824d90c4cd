// honest: hints for the compiler from operators inside macros
#define TEXT(x) #x
#define UNROLLED(k) _Pragma(TEXT(GCC unroll k))
#define INDEPENDENT _Pragma("GCC ivdep")
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    UNROLLED(4)
    for (int k = 0; k < n; k++) {
      INDEPENDENT
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    }
  }
}
