// honest: unrolling by macros that double
#define TWICE(x) x x
#define EIGHT_TIMES(x) TWICE(TWICE(TWICE(x)))
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      const double *a = A + i * n, *b = B + j, *end = a + n;
      double sum = 0;
      while (a < end) { EIGHT_TIMES(sum += *a++ * *b; b += n;) }
      C[i * n + j] = sum;
    }
}
