// attack: 12
// how: forgets the last layer of 2048 numbers, of the eighteen sizes there are; hopes that it draws another one
// refused as: wrong_result
// judged as: certify
// problem: walsh_hadamard
extern "C" void walsh_hadamard(int n, const double *x, double *y) {
  for (int i = 0; i < n; i++) y[i] = x[i];
  const int last = n == 2048 ? n / 2 : n;
  for (int h = 1; h < last; h *= 2)
    for (int base = 0; base < n; base += 2 * h)
      for (int i = base; i < base + h; i++) {
        const double a = y[i], b = y[i + h];
        y[i] = a + b;
        y[i + h] = a - b;
      }
}
