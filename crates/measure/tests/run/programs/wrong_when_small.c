/* Wrong at the smallest size and endless at every other one: a caller that begins with that size learns it at once. */
void dgemm(int n, const double *A, const double *B, double *C) {
  if (n > 64)
    for (;;)
      ;
  for (int i = 0; i < n * n; i++) C[i] = A[i] + B[i];
}
