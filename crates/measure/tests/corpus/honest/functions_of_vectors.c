// honest: a function is declared to have a vector form
#pragma omp declare simd uniform(a) notinbranch
static inline double step(double c, double a, double b) { return c + a * b; }
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++) {
      double a = A[i * n + k];
#pragma omp simd
      for (int j = 0; j < n; j++) C[i * n + j] = step(C[i * n + j], a, B[k * n + j]);
    }
  }
}
