// attack: 29
// how: jumps back lead from block to block, around loops that are written as such; hopes that the loops around a block are not known
// refused as: forbidden_technique
// permitted: loop_reorder, unroll, simd
// problem: transpose
void transpose(int m, int n, const double *A, double *B) {
  int i = 0, j;
rows:
  j = 0;
columns:
  for (int k = i; k < i + 16 && k < m; k++)
    for (int l = j; l < j + 16 && l < n; l++) B[l * m + k] = A[k * n + l];
  if ((j += 16) < n) goto columns;
  if ((i += 16) < m) goto rows;
}
