// honest: const is cast away where nothing is written
void dgemm(int n, const double *A, const double *B, double *C) {
  double *a = (double *)A, *b = (double *)(unsigned long)B;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (double *x = a + i * n, *y = b + j, *end = x + n; x < end; x++, y += n) sum += *x * *y;
      C[i * n + j] = sum;
    }
}
