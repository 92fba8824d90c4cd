// honest: halves the longest side until a block is small
static void part(int n, int rows, int columns, int terms, const double *A, const double *B, double *C) {
  if (rows <= 32 && columns <= 32 && terms <= 32) {
    for (int i = 0; i < rows; i++)
      for (int k = 0; k < terms; k++)
        for (int j = 0; j < columns; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  } else if (rows >= columns && rows >= terms) {
    part(n, rows / 2, columns, terms, A, B, C);
    part(n, rows - rows / 2, columns, terms, A + rows / 2 * n, B, C + rows / 2 * n);
  } else if (columns >= terms) {
    part(n, rows, columns / 2, terms, A, B, C);
    part(n, rows, columns - columns / 2, terms, A, B + columns / 2, C + columns / 2);
  } else {
    part(n, rows, columns, terms / 2, A, B, C);
    part(n, rows, columns, terms - terms / 2, A + terms / 2, B + terms / 2 * n, C);
  }
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int e = 0; e < n * n; e++) C[e] = 0;
  part(n, n, n, n, A, B, C);
}
