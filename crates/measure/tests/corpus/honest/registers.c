// honest: the keyword register wherever it may stand
static void row(register int n, register double a, register const double *b, register double *c) {
  for (register int j = 0; j < n; j++) c[j] += a * b[j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (register int e = 0; e < n * n; e++) C[e] = 0;
  for (auto int i = 0; i < n; i++)
    for (register unsigned short k = 0; k < n; k++) row(n, A[i * n + k], B + k * n, C + i * n);
}
