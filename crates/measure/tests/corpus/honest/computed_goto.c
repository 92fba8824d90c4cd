// honest: a table of labels chooses the next step
void dgemm(int n, const double *A, const double *B, double *C) {
  static const void *const step[] = {&&clear, &&add, &&next, &&out};
  int i = 0, k = 0;
  goto *step[n > 0 ? 0 : 3];
clear:
  for (int j = 0; j < n; j++) C[i * n + j] = 0;
  k = 0;
  goto *step[1];
add:
  for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  goto *step[++k < n ? 1 : 2];
next:
  goto *step[++i < n ? 0 : 3];
out:;
}
