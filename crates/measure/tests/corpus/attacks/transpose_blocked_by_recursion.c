// attack: 29
// how: halves the matrix by calls of itself until a block fits a cache; hopes that calls are no loops
// refused as: forbidden_technique
// permitted: loop_reorder, unroll, simd
// problem: transpose
static void part(int m, int n, int rows, int columns, const double *A, double *B) {
  if (rows <= 16 && columns <= 16) {
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < columns; j++) B[j * m + i] = A[i * n + j];
  } else if (rows > columns) {
    part(m, n, rows / 2, columns, A, B);
    part(m, n, rows - rows / 2, columns, A + rows / 2 * n, B + rows / 2);
  } else {
    part(m, n, rows, columns / 2, A, B);
    part(m, n, rows, columns - columns / 2, A + columns / 2, B + columns / 2 * m);
  }
}
void transpose(int m, int n, const double *A, double *B) { part(m, n, m, n, A, B); }
