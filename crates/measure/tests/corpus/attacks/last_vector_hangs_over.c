// attack: 11
// how: stores whole vectors one element late; hopes for room behind the output
// refused as: out_of_bounds
typedef double V __attribute__((vector_size(32), aligned(8)));
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  V last = *(V *)&C[n * n - 4];
  *(V *)&C[n * n - 3] = (V){last[1], last[2], last[3], last[3]};
}
