// honest: loops made of labels and jumps
void dgemm(int n, const double *A, const double *B, double *C) {
  int i = 0, j, k;
row:
  if (i == n) goto out;
  j = 0;
zero:
  C[i * n + j] = 0;
  if (++j < n) goto zero;
  k = 0;
term: {
  const double a = A[i * n + k];
  for (j = 0; j < n; j++) C[i * n + j] += a * B[k * n + j];
}
  if (++k < n) goto term;
  i++;
  goto row;
out:;
}
