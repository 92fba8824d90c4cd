// honest: loops of the other two kinds
void dgemm(int n, const double *A, const double *B, double *C) {
  int i = 0;
  do {
    int j = 0, k = 0;
    while (j < n) C[i * n + j++] = 0;
    do {
      j = 0;
      while (j != n) {
        C[i * n + j] += A[i * n + k] * B[k * n + j];
        ++j;
      }
    } while (++k < n);
  } while (++i < n);
}
