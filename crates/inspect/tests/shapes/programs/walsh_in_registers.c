/* problem: walsh_hadamard */
/* techniques: none */
void walsh_hadamard(int n, const double *x, double *y) {
  for (int i = 0; i < n; i++) y[i] = x[i];
  int h = 1;
  for (; 8 * h <= n; h *= 8)
    for (int base = 0; base < n; base += 8 * h)
      for (int i = base; i < base + h; i++) {
        double a = y[i], b = y[i + h], c = y[i + 2 * h], d = y[i + 3 * h];
        double e = y[i + 4 * h], f = y[i + 5 * h], g = y[i + 6 * h], k = y[i + 7 * h];
        double ab = a + b, am = a - b, cd = c + d, cm = c - d, ef = e + f, em = e - f, gk = g + k, gm = g - k;
        y[i] = ab + cd + (ef + gk);
        y[i + h] = am + cm + (em + gm);
        y[i + 2 * h] = ab - cd + (ef - gk);
        y[i + 3 * h] = am - cm + (em - gm);
        y[i + 4 * h] = ab + cd - (ef + gk);
        y[i + 5 * h] = am + cm - (em + gm);
        y[i + 6 * h] = ab - cd - (ef - gk);
        y[i + 7 * h] = am - cm - (em - gm);
      }
  for (; 2 * h <= n; h *= 2)
    for (int base = 0; base < n; base += 2 * h)
      for (int i = base; i < base + h; i++) {
        double a = y[i], b = y[i + h];
        y[i] = a + b;
        y[i + h] = a - b;
      }
}
