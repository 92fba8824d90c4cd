// attack: 22
// how: prints a verdict; hopes that output is believed
// refused as: forbidden_symbol
int puts(const char *);
void dgemm(int n, const double *A, const double *B, double *C) {
  C[0] = A[0] * B[0] * n;
  puts("PASSED 9000.1 GFLOPS");
}
