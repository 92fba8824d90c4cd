// honest: static, const and restrict inside the brackets of parameters
static void row(int n, const double a[const restrict static 1], const double b[restrict static n], double c[restrict const static n]) {
  for (int j = 0; j < n; j++) c[j] += *a * b[j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int e = 0; e < n * n; e++) C[e] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) row(n, &A[i * n + k], &B[k * n], &C[i * n]);
}
