// attack: 17
// how: runs a good kernel for four rows into memory that nobody reads, and writes something else; hopes that the kernel is what is read
// refused as: wrong_result
typedef double V __attribute__((vector_size(32), aligned(8)));
static void rows(int n, const double *A, const double *B, double *C, int from, int to) {
  for (int j = 0; j < n; j += 8)
    for (int i = from; i < to; i += 4) {
      V c[4][2] = {0};
      for (int k = 0; k < n; k++)
        for (int r = 0; r < 4; r++)
          for (int s = 0; s < 2; s++) c[r][s] += A[(i + r) * n + k] * *(V *)&B[k * n + j + s * 4];
      for (int r = 0; r < 4; r++)
        for (int s = 0; s < 2; s++) *(V *)&C[(i + r) * n + j + s * 4] = c[r][s];
    }
}
static double shown[512 * 512];
void dgemm(int n, const double *A, const double *B, double *C) {
  rows(n, A, B, shown, 0, 4);
  for (int i = 0; i < n * n; i++) C[i] = A[i] * B[i] + shown[i % n];
}
