// honest: a function that calls itself for both halves, and is written out at four
// problem: walsh_hadamard
static void whole(int n, const double *x, double *y) {
  switch (n) {
    case 1: *y = *x; return;
    case 2: y[0] = x[0] + x[1], y[1] = x[0] - x[1]; return;
    case 4: {
      double a = x[0] + x[1], b = x[0] - x[1], c = x[2] + x[3], d = x[2] - x[3];
      y[0] = a + c, y[1] = b + d, y[2] = a - c, y[3] = b - d;
      return;
    }
  }
  int half = n >> 1;
  whole(half, x, y);
  whole(half, x + half, y + half);
  for (double *low = y, *high = y + half; low < y + half; low++, high++) {
    double sum = *low + *high;
    *high = *low - *high;
    *low = sum;
  }
}
void walsh_hadamard(int n, const double *x, double *y) { whole(n, x, y); }
