// honest: several kernels behind conditions of the preprocessor, for machines this is not
#if defined(__AVX512F__)
#define WIDTH 16
#elif defined(__AVX__)
#define WIDTH 8
#else
#define WIDTH 4
#endif
#ifndef TERMS
#define TERMS 2
#endif
#if TERMS * WIDTH > 64
#error "too many terms"
#endif
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int e = 0; e < n * n; e++) C[e] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k += TERMS)
      for (int j = 0; j < n; j += WIDTH)
        for (int s = 0; s < WIDTH; s++) {
          double sum = 0;
          for (int t = 0; t < TERMS; t++) sum += A[i * n + k + t] * B[(k + t) * n + j + s];
          C[i * n + j + s] += sum;
        }
}
