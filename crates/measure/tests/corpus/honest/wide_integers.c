// honest: addresses by 128-bit integers and a flag that is a boolean
void dgemm(int n, const double *A, const double *B, double *C) {
  _Bool more = 1;
  for (__int128 i = 0; more; i++) {
    double *c = C + (long)(i * n);
    for (int j = 0; j < n; j++) c[j] = 0;
    for (unsigned __int128 k = 0; k < (unsigned)n; k++) {
      double a = A[(long)(i * n) + (long)k];
      const double *b = B + (unsigned long)(k * n);
      for (int j = 0; j < n; j++) c[j] += a * b[j];
    }
    more = i + 1 < n;
  }
}
