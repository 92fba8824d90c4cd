// attack: 6
// how: uses the widest vectors for a while after its work; hopes that the processor is still slow when the baseline runs
// refused as: harmless
// control: i < 20000 => i < -n
typedef double V __attribute__((vector_size(64)));
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static volatile double seen;
  right(n, A, B, C);
  V sums[4] = {{0}};
  for (int i = 0; i < 20000; i++)
    for (int s = 0; s < 4; s++) sums[s] = sums[s] * 0.75 + A[0];
  seen = sums[0][0] + sums[1][0] + sums[2][0] + sums[3][0];
}
