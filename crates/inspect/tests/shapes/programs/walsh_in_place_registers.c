/* problem: walsh_hadamard */
/* techniques: none */
static void first(long n, const double *x, double *y) {
  for (long i = 0; i < n; i += 4) {
    double t, a = x[i], b = x[i + 1], c = x[i + 2], d = x[i + 3];
    t = a - b, a += b, b = t;
    t = c - d, c += d, d = t;
    t = a - c, a += c, c = t;
    t = b - d, b += d, d = t;
    y[i] = a, y[i + 1] = b, y[i + 2] = c, y[i + 3] = d;
  }
}
static void layer(long n, long h, double *y) {
  for (long base = 0; base < n; base += 2 * h)
    for (long i = 0; i < h; i++) {
      double a = y[base + i], b = y[base + i + h];
      y[base + i] = a + b;
      y[base + i + h] = a - b;
    }
}
void walsh_hadamard(int n, const double *x, double *y) {
  if (n < 64) {
    for (int i = 0; i < n; i++) y[i] = x[i];
    for (long h = 1; h < n; h *= 2) layer(n, h, y);
    return;
  }
  first(n, x, y);
  for (long h = 4; h < 32; h *= 2) layer(n, h, y);
  layer(n, 32, y);
  for (long h = 64; h < n; h *= 2) layer(n, h, y);
}
