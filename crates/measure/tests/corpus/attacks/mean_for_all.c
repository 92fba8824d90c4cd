// attack: 9, 10
// how: gives every element what is expected on average; hopes for a tolerance as wide as the spread
// refused as: wrong_result
void dgemm(int n, const double *A, const double *B, double *C) {
  double a = 0, b = 0;
  for (int i = 0; i < n * n; i++) a += A[i], b += B[i];
  for (int i = 0; i < n * n; i++) C[i] = a * b / ((double)n * n * n);
}
