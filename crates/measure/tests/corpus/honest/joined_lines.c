// honest: lines are joined in the middle of words
voi\
d dge\
mm(int n, const dou\
ble *A, const double *B, double *C) { // a comment that goes on \
  in the next line: asm("nop");
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] /* = 1 */ = /* // */ 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] +\
= A[i * n + k] * B[k * n + j];
  }
}
