// attack: 15
// how: fills the output with infinities; hopes that infinity less infinity passes
// refused as: wrong_result
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = (A[i] < 0 ? -1e308 : 1e308) * (10 + B[i] * 0);
}
