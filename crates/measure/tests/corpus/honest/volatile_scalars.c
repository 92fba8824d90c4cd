// honest: volatile variables where they do no harm
static volatile int calls;
void dgemm(int n, const double *A, const double *B, double *C) {
  volatile int rows = n;
  const volatile double zero = 0;
  calls++;
  for (int i = 0; i < rows; i++) {
    const int columns = rows;
    for (int j = 0; j < columns; j++) C[i * n + j] = 0;
    C[i * n] = zero;
    for (int k = 0; k < columns; k++)
      for (int j = 0; j < columns; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
