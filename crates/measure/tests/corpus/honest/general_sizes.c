// honest: tiles with clean-up code for rows, columns and terms that multiples of 64 never need
#define MIN(a, b) ((a) < (b) ? (a) : (b))
static void tile(int n, int rows, int columns, const double *A, const double *B, double *C) {
  double sums[4][8] = {{0}};
  for (int k = 0; k < n; k++)
    for (int r = 0; r < rows; r++)
      for (int s = 0; s < columns; s++) sums[r][s] += A[r * n + k] * B[k * n + s];
  for (int r = 0; r < rows; r++)
    for (int s = 0; s < columns; s++) C[r * n + s] = sums[r][s];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int j = 0; j < n; j += 8)
    for (int i = 0; i < n; i += 4)
      if (n - i >= 4 && n - j >= 8) tile(n, 4, 8, A + i * n, B + j, C + i * n + j);
      else tile(n, MIN(4, n - i), MIN(8, n - j), A + i * n, B + j, C + i * n + j);
}
