void many(int a, double p, const double *x, float q, int b, double r, double s, int c, float t, const double *y, double u, float v,
          int n, double w, int d, double *out) {
  for (int i = 0; i < n; i++)
    out[i] = p * x[i] + q * y[i] + (a + 2.0 * b + 3.0 * c + 5.0 * d) + 7 * r + 11 * s + 13.0 * t + 17 * u + 19.0 * v + 23 * w;
}
