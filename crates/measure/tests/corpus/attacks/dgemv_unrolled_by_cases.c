// attack: 29
// how: unrolls by a switch that jumps into the middle of a loop; hopes that cases are no copies
// refused as: forbidden_technique
// permitted: loop_reorder, simd
// problem: dgemv
void dgemv(int m, int n, const double *A, const double *x, double *y) {
  for (int i = 0; i < m; i++) {
    const double *a = A + i * n, *b = x;
    double sum = 0;
    int rounds = (n + 3) / 4;
    switch (n % 4) {
      case 0:
        do {
          sum += *a++ * *b++;
          case 3: sum += *a++ * *b++;
          case 2: sum += *a++ * *b++;
          case 1: sum += *a++ * *b++;
        } while (--rounds > 0);
    }
    y[i] = sum;
  }
}
