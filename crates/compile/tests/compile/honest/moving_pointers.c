// none
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      const double *a = A + i * n, *b = B + j, *end = a + n;
      double sum = 0;
      while (a < end) {
        sum += *a++ * *b;
        b += n;
      }
      *C++ = sum;
    }
}
