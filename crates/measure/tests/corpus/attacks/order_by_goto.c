// attack: 29
// how: goes over the sum before the columns by jumps; hopes that the order of jumps is not known
// refused as: forbidden_technique
// permitted: none
void dgemm(int n, const double *A, const double *B, double *C) {
  int i = 0, k, j;
row:
  for (j = 0; j < n; j++) C[i * n + j] = 0;
  k = 0;
term:
  j = 0;
column:
  C[i * n + j] += A[i * n + k] * B[k * n + j];
  if (++j < n) goto column;
  if (++k < n) goto term;
  if (++i < n) goto row;
}
