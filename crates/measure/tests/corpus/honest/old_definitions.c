// honest: definitions in the style of the first compilers
static row(n, a, b, c)
  register int n;
  double a;
  const double *b;
  double *c;
{
  register int j;
  for (j = 0; j < n; j++) c[j] += a * b[j];
  return 0;
}
void dgemm(n, A, B, C)
  int n;
  const double *A, *B;
  double *C;
{
  register i, k;
  for (i = 0; i < n * n; i++) C[i] = 0;
  for (i = 0; i < n; i++)
    for (k = 0; k < n; k++) row(n, A[i * n + k], B + k * n, C + i * n);
}
