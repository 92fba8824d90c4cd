// attack: 21, 26
// how: makes an object of two gibibytes; hopes to fill the disk
// refused as: compile_limit
static double table[1 << 28] = {1.5};
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = A[i] * B[i] * table[i];
}
