// attack: 6
// how: walks through much memory after its work; hopes that the baseline finds nothing in the caches
// refused as: harmless
// control: for (int i = 0; i < 1 << 23 => for (int i = 0; i < -n
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static volatile unsigned char memory[1 << 23];
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  for (int i = 0; i < 1 << 23; i += 64) memory[i]++;
}
