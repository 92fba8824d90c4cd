void cgemv(int m, int n, const float _Complex *A, const float _Complex *x, float _Complex *y) {
  const float *a = (const float *)A, *b = (const float *)x;
  float *c = (float *)y;
  for (int i = 0; i < m; i++) {
    double re = 0, im = 0;
    for (int j = 0; j < n; j++) {
      double p = a[2 * (i * n + j)], q = a[2 * (i * n + j) + 1], r = b[2 * j], s = b[2 * j + 1];
      re += p * r - q * s;
      im += p * s + q * r;
    }
    c[2 * i] = re;
    c[2 * i + 1] = im;
  }
}
