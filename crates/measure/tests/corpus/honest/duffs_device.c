// honest: a loop unrolled by jumping into its middle
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      const double *a = A + i * n, *b = B + j;
      int rounds = (n + 7) / 8;
      switch (n % 8) {
        case 0:
          do {
            sum += *a++ * *b, b += n;
            case 7: sum += *a++ * *b, b += n;
            case 6: sum += *a++ * *b, b += n;
            case 5: sum += *a++ * *b, b += n;
            case 4: sum += *a++ * *b, b += n;
            case 3: sum += *a++ * *b, b += n;
            case 2: sum += *a++ * *b, b += n;
            case 1: sum += *a++ * *b, b += n;
          } while (--rounds > 0);
      }
      C[i * n + j] = sum;
    }
}
